"""Signals in the middle of each phase: what is said, how soon it ends, and does the same command
then yield the same bits?

    python benchmarks/signals.py [PHASE …]       writes benchmarks/results/signals.{json,md}; with PHASE, its rows alone anew

A command stops after the first call of a function of its phase (`PHASES`), gets SIGINT, SIGTERM,
SIGHUP or SIGKILL, and then goes on. SIGINT and SIGHUP reach its whole process group, as from a
terminal. The first three must give one line and 128 + the signal's number, SIGKILL nothing. No
process may be left, and the same command must then leave the results of an uninterrupted one, bit
for bit. At last four processes work on one run, and the one that holds it is killed.

Commands are forks of this process, which has imported everything: only the workers of tables start
as interpreters of their own.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from _report import RESULTS, machine, write_results

FORK = multiprocessing.get_context("fork")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
SAID = "relpos: interrupted; the same command goes on from here"
DATA = ("toy", "tokenizer", "store")
PRETRAIN = [
    "pretrain",
    "steps=6",
    "batch=4",
    "checkpoint_every=2",
    "log_every=1",
    "evaluations=2",
    "position=composite",
]
FINETUNE = [
    "finetune",
    "task=rte",
    "steps=6",
    "checkpoint_every=2",
    "log_every=1",
    "intermediate=none",
    "network={network}",
]
ORDER = [
    "order",
    "measure=[shuffle,pairs]",
    "pairs=toy",
    "pairs.count=3",
    "examples=8",
    "network={network}",
]
TABLE = ["reproduce", "table={root}/experiment.yaml", "engine=local", "engine.workers=2"]
EXPERIMENT = """question: Does it heal?
base: [size=tiny, batch=8, log_every=1, checkpoint_every=20]
rows: {none: [position=none], fixed: [position=fixed]}
stages: {pretrain: [steps=100], order: [pairs=toy, pairs.count=3, examples=8]}
order: [shuffle]
tasks: []
threads: 1
"""
NOTE = "SentencePiece trains in one call into C++: a signal is heard when it returns. A table waits for its workers' checkpoints."
SEVERAL = "four processes on one run, the holder killed"
WRITTEN = (
    "tokenizer/*/*.model",
    "store/*/*.bin",
    "*/*/model/*.safetensors",
    "finetune/*/predictions/*",
    "order/*/order.json",
    "order/*/results.json",
)


@dataclass(frozen=True)
class Phase:
    """What is interrupted.

    Args:
        command: the arguments of `relpos`.
        within: dotted name of a function after whose first call the command stops until the signal
            has come; or of none.
        there: stages whose runs are finished before the command is given.
        ahead: it is called no sooner than the signal is sent: the function is one call into C++.
        under_way: asked for the runs folder, whether the moment has come, where no function stops.
    """

    command: Sequence[str]
    within: str | None
    there: tuple[str, ...] = DATA
    ahead: bool = False
    under_way: Callable[[Path], bool] | None = None


def is_training(root: Path) -> bool:
    """Whether both runs of the table have logged a step."""
    return sum('"loss"' in path.read_text() for path in root.glob("pretrain/*/metrics.jsonl")) == 2


def is_measuring(root: Path) -> bool:
    """Whether a network of the table is being measured."""
    return bool([*root.glob("order/*/record.json")])


OF_TABLE = (*DATA, "pretrain", "order", "tables")
PHASES = {
    "language": Phase(PRETRAIN, "relpos.data.toy.write.write_corpus", ()),
    "tokenizer: text is read": Phase(PRETRAIN, "relpos.data.tokenizer.reservoir", ("toy",)),
    "tokenizer: SentencePiece trains": Phase(
        PRETRAIN, "sentencepiece.SentencePieceTrainer.train", ("toy",), ahead=True
    ),
    "store: one process": Phase(PRETRAIN, "relpos.data.store.portions", ("toy", "tokenizer")),
    "store: several processes": Phase(
        PRETRAIN, "relpos.data.encoding._result", ("toy", "tokenizer")
    ),
    "pre-training: before the first step": Phase(
        PRETRAIN, "relpos.train.pretrain.Pretraining.configure_optimizers"
    ),
    "pre-training: a step": Phase(PRETRAIN, "relpos.train.pretrain.Pretraining.training_step"),
    "pre-training: held-out text": Phase(
        PRETRAIN, "relpos.train.pretrain.Pretraining.validation_step"
    ),
    "pre-training: a checkpoint is written": Phase(PRETRAIN, "torch.save"),
    "pre-training: the network is written": Phase(PRETRAIN, "relpos.train.weights.save_weights"),
    "fine-tuning: rows are encoded": Phase(
        FINETUNE, "relpos.train.finetune.Splits.__getitem__", (*DATA, "pretrain")
    ),
    "fine-tuning: a step": Phase(
        FINETUNE, "relpos.train.finetune.Finetuning.training_step", (*DATA, "pretrain")
    ),
    "order": Phase(ORDER, "relpos.measures.kinds.shuffle.Shuffle.measure", (*DATA, "pretrain")),
    "table: it is planned": Phase(TABLE, "relpos.tables.plan.plan_table"),
    "table: its runs are trained": Phase(TABLE, None, under_way=is_training),
    "table: networks are measured": Phase(TABLE, None, (*DATA, "pretrain"), under_way=is_measuring),
    "table: it is drawn": Phase(TABLE, "relpos.tables.render.pictures.draw", OF_TABLE),
}


def owner_and_attribute(name: str) -> tuple[Any, str]:
    """What has the attribute that a dotted name ends with: a module or a class."""
    owner, _, attribute = name.rpartition(".")
    try:
        return import_module(owner), attribute
    except ModuleNotFoundError:
        owner, _, member = owner.rpartition(".")
        return getattr(import_module(owner), member), attribute


def stop_within(phase: Phase, meeting: Path) -> None:
    """Makes the first call of the phase's function wait until the other side has sent the
    signal."""
    assert phase.within
    owner, attribute = owner_and_attribute(phase.within)
    before = getattr(owner, attribute)

    def stopping(*given: Any, **named: Any) -> Any:
        result = None if phase.ahead else before(*given, **named)
        if not (meeting / "there").exists():
            (meeting / "there").touch()
            while not phase.ahead and not (meeting / "sent").exists():
                time.sleep(0.02)
        return before(*given, **named) if phase.ahead else result

    setattr(owner, attribute, stopping)


def relpos(command: Sequence[str], root: Path, phase: Phase | None, meeting: Path) -> None:
    """`relpos COMMAND` in this process, a fork."""
    from relpos.cli import main
    from relpos.data import encoding

    os.setsid()
    os.environ["RELPOS_RUNS"] = str(root)
    os.chdir(meeting)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(meeting / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    if phase == PHASES["store: several processes"]:
        encoding.ALONE = 0
    if phase and phase.within:
        stop_within(phase, meeting)
    network = next(root.glob("pretrain/*"), None)
    sys.argv = ["relpos", *(word.format(root=root, network=network) for word in command)]
    sys.exit(main())


def begin(
    command: Sequence[str], root: Path, phase: Phase | None = None
) -> tuple[BaseProcess, Path]:
    """The command as a process, and the folder where it is met: its stdout, its stderr, and how it
    stands."""
    meeting = Path(tempfile.mkdtemp(dir=root.parent))
    process = FORK.Process(target=relpos, args=(command, root, phase, meeting))
    process.start()
    return process, meeting


def finish(command: Sequence[str], root: Path) -> dict[str, str]:
    """The command to its end; then the checksums of all results."""
    process, meeting = begin(command, root)
    process.join()
    if process.exitcode:
        sys.exit(
            f"{' '.join(command)} ended with {process.exitcode}: {(meeting / 'stderr').read_text()}"
        )
    return results(root)


def results(root: Path) -> dict[str, str]:
    """Every result → its checksum; of a table, its rows. The folder of `order` is named by the path
    of its network: left out."""
    contents = {path: path.read_bytes() for pattern in WRITTEN for path in root.glob(pattern)}
    for path in root.glob("tables/*/table.json"):
        contents[path] = json.dumps(json.loads(path.read_text())["rows"], sort_keys=True).encode()
    names = {
        path: path.name if path.name == "order.json" else str(path.relative_to(root))
        for path in contents
    }
    return {names[path]: hashlib.sha256(content).hexdigest() for path, content in contents.items()}


def fresh(parent: Path, stages: Sequence[str], prepared: Path) -> Path:
    """A folder for runs that has those of some stages."""
    root = Path(tempfile.mkdtemp(dir=parent)) / "runs"
    for stage in stages:
        shutil.copytree(prepared / stage, root / stage)
    root.mkdir(exist_ok=True)
    (root / "experiment.yaml").write_text(EXPERIMENT)
    return root


def left_of(session: int) -> int:
    """How many processes of a session are still there after some seconds, those of the command
    itself and its workers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        count = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
            except OSError:  # it has ended
                continue
            count += int(of) == session and state != "Z"
        if not count:
            return 0
        time.sleep(0.2)
    return count


def trial(
    name: str, number: signal.Signals, parent: Path, prepared: Path, whole: dict[str, str]
) -> dict[str, Any]:
    """One signal in one phase, and what became of it."""
    phase = PHASES[name]
    root = fresh(parent, phase.there, prepared)
    process, meeting = begin(phase.command, root, phase)
    while process.is_alive() and not (
        phase.under_way(root) if phase.under_way else (meeting / "there").exists()
    ):
        time.sleep(0.02)
    in_time = process.is_alive()
    if phase.ahead:
        time.sleep(0.05)
    sent = time.monotonic()
    assert process.pid
    if in_time:
        (os.killpg if number in (signal.SIGINT, signal.SIGHUP) else os.kill)(process.pid, number)
    (meeting / "sent").touch()
    process.join()
    seconds = time.monotonic() - sent
    lines = (meeting / "stderr").read_text().splitlines()
    expected = -number if number == signal.SIGKILL else 128 + number
    is_said = number == signal.SIGKILL or (
        lines[-1:] == [SAID] and "Traceback" not in "".join(lines)
    )
    left = left_of(process.pid)
    after = finish(phase.command, root)
    shutil.rmtree(root.parent)
    row = {
        "phase": name, "signal": number.name, "status": process.exitcode, "seconds until it ended": round(seconds, 1),
        "one line": is_said if number != signal.SIGKILL else "", "processes left": left, "same results after": after == whole,
    }  # fmt: skip
    passed = in_time and process.exitcode == expected and is_said and not left and after == whole
    if not passed:
        different = [key for key in whole.keys() | after.keys() if whole.get(key) != after.get(key)]
        print(
            f"MISSED (in time: {in_time}, different: {different}), stderr:",
            *lines,
            sep="\n    ",
            file=sys.stderr,
        )
    return row | {"passed": passed}


def several(parent: Path, prepared: Path, whole: dict[str, str]) -> dict[str, Any]:
    """Four processes on one run, of which the holder is killed while it trains."""
    root = fresh(parent, DATA, prepared)
    phase = Phase(PRETRAIN, PHASES["pre-training: a step"].within)
    holder, meeting = begin(PRETRAIN, root, phase)
    while holder.is_alive() and not (meeting / "there").exists():
        time.sleep(0.02)
    others = [begin(PRETRAIN, root) for _ in range(3)]
    saying = [folder / "stderr" for _, folder in others]
    while holder.is_alive() and any(
        "waiting for" not in stderr.read_text() for stderr in saying if stderr.exists()
    ):
        time.sleep(0.02)
    holder.kill()
    holder.join()
    sent = time.monotonic()
    for process, _ in others:
        process.join()
    seconds = time.monotonic() - sent
    [record] = [json.loads(path.read_text()) for path in root.glob("pretrain/*/record.json")]
    ended = [start.get("ended") for start in record["starts"]]
    same = results(root) == whole
    passed = (
        same
        and ended == ["died", "finished"]
        and not any(process.exitcode for process, _ in others)
    )
    status = " ".join(str(process.exitcode) for process, _ in others)
    return {
        "phase": SEVERAL, "signal": "SIGKILL", "status": status, "seconds until it ended": round(seconds, 1),
        "one line": "", "processes left": 0, "same results after": same, "passed": passed,
    }  # fmt: skip


def write(rows: Sequence[dict[str, Any]]) -> bool:
    """Writes the results, together with those of other phases that were there before; returns
    whether all passed."""
    file = RESULTS / "signals.json"
    before = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    every = {(row["phase"], row["signal"]): row for row in [*before, *rows]}
    order = [*PHASES, SEVERAL]
    sorted_rows = sorted(
        (row for row in every.values() if row["phase"] in order),
        key=lambda row: order.index(row["phase"]),
    )
    passed = all(row["passed"] for row in sorted_rows)
    write_results(
        "signals", {"machine": machine(), "note": NOTE, "passed": passed, "rows": sorted_rows}
    )
    return passed


def main() -> int:
    """All phases with all signals."""
    import relpos.commands.finetune
    import relpos.commands.order
    import relpos.commands.reproduce
    import relpos.runs.training  # noqa: F401  what takes seconds
    from relpos.data.toy.write import write as write_language

    write_language.__defaults__ = (0, 3_000, 200)  # seed, pairs, items: a tenth of the language

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # the first training would compile its kernels, the second would not
    os.environ["RELPOS_COMPILE"] = "0"
    # in the background of a script it is ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = sys.argv[1:] or [*PHASES, SEVERAL]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        parent = Path(folder)
        first = fresh(parent, (), parent)
        of_pretraining = finish(PRETRAIN, first)
        of_table = fresh(parent, DATA, first)
        whole = {
            "reproduce": (finish(TABLE, of_table), of_table),
            "pretrain": (of_pretraining, first),
        }
        for command in (FINETUNE, ORDER):
            whole[command[0]] = (finish(command, fresh(parent, (*DATA, "pretrain"), first)), first)
        for name in chosen:
            if name == SEVERAL:
                rows.append(several(parent, first, of_pretraining))
                continue
            expected, prepared = whole[PHASES[name].command[0]]
            with ProcessPoolExecutor(len(SIGNALS), FORK) as side_by_side:
                trials = [
                    side_by_side.submit(trial, name, number, parent, prepared, expected)
                    for number in SIGNALS
                ]
                rows += [future.result() for future in trials]
            print(*rows[-len(SIGNALS) :], sep="\n", file=sys.stderr)
    return 0 if write(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
