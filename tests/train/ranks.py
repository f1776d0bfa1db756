"""Real processes that share a run, without paying for the imports in each: imports once, then
forks.

    python ranks.py '{"groups": [{"world": 2, "root": …, "overrides": […], "stop": false}, …]}'

Each group is started as torchrun would start it; groups come one after another.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any


def main() -> int:
    from relpos.when_imported import import_quickly

    import_quickly()
    from relpos.config.compose import compose  # the costly imports, before the forks
    from relpos.runs import training
    from relpos.runs.distributed import reserved_port
    from relpos.runs.plan import plan

    training.draw_kernels = lambda *_: False  # as in the other tests: see conftest.py
    for group in json.loads(sys.argv[1])["groups"]:
        os.environ["RELPOS_RUNS"] = group["root"]
        run = plan(compose("pretrain", group["overrides"]))
        with reserved_port() as port:
            pids = [fork(rank, group["world"], port, run) for rank in range(group["world"])]
            if group.get("stop"):  # one process is asked to; all stop at the same step
                while not list((run.path / "checkpoint").glob("last-*.ckpt")):
                    time.sleep(0.01)
                os.kill(pids[-1], signal.SIGTERM)
            states = [os.waitpid(pid, 0)[1] for pid in pids]
        if any(states):
            return 1
        print(run.path, flush=True)
    return 0


def fork(rank: int, world: int, port: int, run: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    status = 1
    try:
        from relpos.runs.execute import execute

        with suppress(KeyboardInterrupt):
            execute(run)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
