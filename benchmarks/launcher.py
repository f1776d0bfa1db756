"""What launching costs: commands that train nothing, from a command to its first training step,
from run to run, and runs whose training is left out.

    python benchmarks/launcher.py        writes benchmarks/results/launcher.{json,md}

Each figure is the least of some tries, in wall-clock seconds, with the processor seconds beside it
(of all processes, children too): on a busy machine the latter tell more.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from _report import machine, write_results

RELPOS = [sys.executable, "-m", "relpos.cli"]
TINY = ["size=tiny", "steps=2", "batch=8", "evaluations=1"]
QUICKLY = "from relpos.when_imported import import_quickly; import_quickly(); "
IMPORTS = QUICKLY + "import torch, pytorch_lightning"
# the least that any training needs: making an optimiser imports torch._dynamo
OPTIMISER = "import torch; torch.optim.AdamW([torch.zeros(1, requires_grad=True)])"
FIRST_STEP = """
import sys, time
from pathlib import Path
from relpos.runs.run import stage_class

STAMPS = Path(sys.argv[1])

def stamp():
    with STAMPS.open("a") as file:
        file.write(f"{time.time()} {time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)}\\n")

def measured(work):
    def run(run):
        from relpos.train.module import Training
        learn = Training.learn
        def first(*args):
            Training.learn = learn
            sums = learn(*args)
            stamp()
            return sums
        Training.learn = first
        return work(run)
    return run

for name in ("pretrain", "finetune"):
    stage_class(name).work = measured(stage_class(name).work)
"""
UNTRAINED = """
from relpos.runs.run import stage_class
from relpos.stages import FILES
for name in FILES:
    stage_class(name).work = lambda self: {"parameters": 1, "position_parameters": 0, "perplexity": 1.0}
"""
"""What every Python executes at its start, so that runs of a table do nothing in its workers
either."""
COMMAND = FIRST_STEP + "from relpos.cli import main; del sys.argv[1]; sys.exit(main())"
NEXT = (
    FIRST_STEP
    + """
from relpos.config.compose import compose
from relpos.runs.execute import execute
from relpos.runs.plan import plan
command, *overrides = sys.argv[2:]
runs = [plan(compose(command, [*overrides, f"seed={seed}"])) for seed in (11, 12, 13)]
for run in runs:
    stamp()
    execute(run, log=True)
"""
)


def timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock seconds, and processor seconds of the children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    action()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(tries: int, action: Callable[[int], tuple[float, float]]) -> tuple[float, float]:
    """The least of both figures."""
    walls, processors = zip(*(action(number) for number in range(tries)), strict=True)
    return min(walls), min(processors)


def call(command: list[str], root: Path, **more: str) -> None:
    """Runs a command quietly; its mistakes show."""
    environment = os.environ | {"RELPOS_RUNS": str(root), "OMP_NUM_THREADS": "1"} | more
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)


def first_step(root: Path, command: list[str], seed: int) -> tuple[float, float]:
    """From the command to the end of the first training step, data there already."""
    stamps = root / "stamps"
    stamps.unlink(missing_ok=True)
    start = time.time()
    call([sys.executable, "-c", COMMAND, str(stamps), *command, f"seed={seed + 100}"], root)
    then, cpu = map(float, stamps.read_text(encoding="utf-8").split())
    return then - start, cpu


def next_run(root: Path, command: list[str]) -> tuple[float, float]:
    """From one run to the first step of the next in the same process; the second and third of
    three."""
    stamps = root / "stamps"
    stamps.unlink(missing_ok=True)
    call([sys.executable, "-c", NEXT, str(stamps), *command], root)
    lines = [
        tuple(map(float, line.split())) for line in stamps.read_text(encoding="utf-8").splitlines()
    ]
    pairs = [(lines[i], lines[i + 1]) for i in range(2, len(lines), 2)]
    walls, processors = zip(*((b[0] - a[0], b[1] - a[1]) for a, b in pairs), strict=True)
    return min(walls), min(processors)


def experiment(folder: Path, name: str, **content: Any) -> str:
    """An experiment file of its own."""
    path = folder / f"{name}.yaml"
    path.write_text(
        yaml.safe_dump({"question": "how fast?", "tasks": []} | content, sort_keys=False),
        encoding="utf-8",
    )
    return f"table={path}"


def finish_all_but_one(root: Path, count: int) -> None:
    """Records of finished pre-trainings, without running them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    from relpos.config.compose import compose
    from relpos.runs.plan import plan

    os.environ["RELPOS_RUNS"] = str(root)
    from dataclasses import replace

    template = plan(compose("pretrain", ["position=none"]))
    metrics = {"parameters": 1, "position_parameters": 0, "perplexity": 1.0}
    for seed in range(count - 1):
        meaning = template.meaning | {"seed": seed}
        run = replace(template, name=f"{template.name.removesuffix('0')}{seed}", meaning=meaning)
        run.path.mkdir(parents=True)
        record = {
            "state": "finished",
            "stage": "pretrain",
            "identity": run.identity,
            "meaning": meaning,
            "starts": [],
        }
        record |= {"metrics": metrics, "inputs": {}}
        (run.path / "record.json").write_text(json.dumps(record), encoding="utf-8")


def table6_like(folder: Path) -> str:
    """Nineteen rows, nine tasks, ten seeds, as large as the largest table of the papers."""
    positions = [
        "none",
        "absolute",
        "sinusoidal",
        "fixed",
        "dynamic",
        "composite",
        "key",
        "composite_key",
    ]
    rows = {f"row{i}": [f"position={positions[i % 8]}", f"k={3 + i // 8}"] for i in range(19)}
    tasks = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"]
    return experiment(
        folder, "large", base=["data=files", "size=small"], rows=rows, tasks=tasks, seeds=10
    )


def main() -> int:
    """All figures."""
    rows = []

    def add(what: str, bar: str, wall: float, processor: float) -> None:
        rows.append(
            {
                "what": what,
                "bar": bar,
                "seconds": round(wall, 3),
                "processor seconds": round(processor, 3),
            }
        )
        print(rows[-1], file=sys.stderr)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "runs"
        call([*RELPOS, "pretrain", *TINY], root)  # the data, and warm files

        def python(code: str) -> tuple[float, float]:
            """What it costs to execute some code."""
            return least(3, lambda _: timed(lambda: call([sys.executable, "-c", code], root)))

        imports = python(IMPORTS)
        add("import torch and Lightning", "", *imports)
        add("import torch", "", *python("import torch"))
        add("import torch and make an optimiser", "", *python(OPTIMISER))
        add(
            "relpos --help",
            "0.2",
            *least(5, lambda _: timed(lambda: call([*RELPOS, "--help"], root))),
        )
        add(
            "relpos claims, without runs",
            "3",
            *least(3, lambda n: timed(lambda: call([*RELPOS, "claims"], folder / f"none{n}"))),
        )
        first = least(3, lambda number: first_step(root, ["pretrain", *TINY], number))
        add(
            "command to the first training step, beyond these imports",
            "2",
            first[0] - imports[0],
            first[1] - imports[1],
        )
        add(
            "next run in the same worker, to its first step",
            "0.5",
            *next_run(root, ["pretrain", *TINY]),
        )
        [network] = (root / "pretrain").glob("*-seed0-*/model")
        tuning = ["finetune", f"network={network}", "task=cola", "steps=100", "batch=8"]
        call([*RELPOS, *tuning], root)
        add(
            "relpos finetune to its first update",
            "",
            *least(3, lambda number: first_step(root, tuning, number)),
        )
        add(
            "next fine-tuning in the same worker, to its first update",
            "0.5",
            *next_run(root, tuning),
        )
        start = python("pass")
        (folder / "sitecustomize.py").write_text(UNTRAINED, encoding="utf-8")

        def reproduce(root: Path, name: str, **content: Any) -> tuple[float, float]:
            table = experiment(folder, name, rows={"none": ["position=none"]}, **content)
            return timed(lambda: call([*RELPOS, "reproduce", table], root, PYTHONPATH=str(folder)))

        add(
            "a table of one untrained run",
            "",
            *least(2, lambda n: reproduce(folder / f"one{n}", "one")),
        )
        all200 = least(2, lambda n: reproduce(folder / f"many{n}", "many", pretrain_seeds=200))
        add(
            "an untrained run of 200, launcher and all, beyond starting Python",
            "0.3",
            *((x - y) / 200 for x, y in zip(all200, start, strict=True)),
        )
        finish_all_but_one(folder / "full", 10_000)
        began = time.time()
        spent = reproduce(folder / "full", "full", pretrain_seeds=10_000)
        [last] = (folder / "full" / "pretrain").glob("*-seed9999-*")
        assert len(json.loads((last / "record.json").read_text(encoding="utf-8"))["starts"]) == 1
        started = (last / "config.yaml").stat().st_mtime - began
        add(
            "10,000 untrained runs, all but one finished: until that one starts",
            "10",
            started,
            spent[1],
        )
        large = table6_like(folder)
        add(
            "plan of 19 rows × (1 + 9 tasks × 10 seeds)",
            "2.5",
            *least(
                3,
                lambda _: timed(lambda: call([*RELPOS, "reproduce", large, "dry_run=true"], root)),
            ),
        )
    write_results("launcher", {"machine": machine(), "load": os.getloadavg()[0], "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
