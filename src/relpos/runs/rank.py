"""`python -m relpos.runs.rank`: one of the processes that share a run. The run comes as a JSON line
on standard input, which then stays open: when it closes, the process that started this one is gone,
and this one stops as if it had been asked to."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback

from relpos.errors import RelposError
from relpos.process import interrupt, tether
from relpos.readers import fitted
from relpos.runs.execute import execute
from relpos.runs.run import Description
from relpos.when_imported import import_quickly


def main() -> int:
    """Executes the run; the record says how it ended, the status whether this process did its
    part."""
    # The only signal that reaches it from its parent, which passes every other one on as this.
    signal.signal(signal.SIGTERM, interrupt)
    content = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=tether, daemon=True).start()
    try:
        execute(fitted(content["run"], Description).run(), content["wait"])
    except KeyboardInterrupt:
        return 0
    except RelposError:  # it is in the record; the process that started this one shows it
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    import_quickly()
    status = main()
    if status:  # threads of a broken group may keep the interpreter from ending
        sys.stderr.flush()
        os._exit(status)
