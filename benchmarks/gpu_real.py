"""Does it learn from real text on this GPU? A small table through `relpos reproduce`, killed once
with −9, then fine-tuned.

    RELPOS_DATA=FOLDER python benchmarks/gpu_real.py [--seconds 460] [--steps 2000] [--out FOLDER]
    [--carried FOLDER] [--rehearse] RELPOS_DATA=FOLDER python benchmarks/gpu_real.py --table NAME
    [--seconds 720] [--out FOLDER] [--carried FOLDER]

FOLDER has corpus/ and glue/. One row is pre-trained without interruption and once more in another
folder, where it is killed in the middle and continued: are the weights the same bits? Then it is
fine-tuned, then come the other rows. Each command ends when the seconds do; what has been found
stands in real.json, what is finished or can be continued in carry.0, carry.1, … of 15 MB each, 60
MB at most. `--carried` names a folder with such files of an earlier session, by default that of
`--out`. Runs are in RELPOS_RUNS, by default a temporary folder. `--rehearse` does the same with the
toy language, at toy sizes, on a CPU.

With `--table` the runs are those of an experiment file: a pre-training of every row and a table,
then the second of every row, and so on. Records are packed then, and no weights.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import torch
from _report import RESULTS

from relpos.tables.experiment import load

PIECE, PIECES = 15_000_000, 4
BASE = ["data=files", "data.sample=500000", "size=small", "precision=bf16"]
TOY = ["data=toy", "size=tiny", "speed.threads=1"]
TABLE = """\
question: What does BERT-small learn on a GPU in some minutes?
base: [{base}]
rows:
  composite: [position=composite]
  absolute: [position=absolute]
  none: [position=none]
stages:
  pretrain: [steps={steps}, batch={batch}, recipe.lr=1e-3, seed=0, log_every={log}, checkpoint_every={checkpoint}, evaluations=2]
  finetune: [{tuning}, intermediate=none]
tasks: [{tasks}]
seeds: [0]
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=460)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="an experiment file with pretrain_seeds, as when_order_small",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument(
        "--carried",
        type=Path,
        metavar="FOLDER",
        help="with carry.0, carry.1, … of an earlier session",
    )
    parser.add_argument("--rehearse", action="store_true", help="at toy sizes, on a CPU")
    asked = parser.parse_args(arguments)
    if not asked.rehearse and not os.environ.get("RELPOS_DATA"):
        raise SystemExit("gpu_real.py: RELPOS_DATA=FOLDER names the folder with corpus/ and glue/")
    asked.out.mkdir(parents=True, exist_ok=True)
    root = Path(os.environ.get("RELPOS_RUNS") or tempfile.mkdtemp(prefix="relpos-gpu-"))
    session = Session(root, asked.out, time.monotonic() + asked.seconds)
    unpack(asked.carried or asked.out, root)
    if asked.table:
        return in_rounds(session, asked.table)
    base, steps, batch, tuning, tasks = BASE, asked.steps, 256, "recipe.epochs=1", "cola, rte, mrpc"
    if asked.rehearse:
        base, steps, batch, tuning, tasks = TOY, min(asked.steps, 40), 16, "steps=10", "cola"
    table = root / "gpu_real.yaml"
    table.parent.mkdir(parents=True, exist_ok=True)
    every = {"log": max(5, steps // 20), "checkpoint": steps // 4}
    filled = TABLE.format(
        base=", ".join(base), steps=steps, batch=batch, tuning=tuning, tasks=tasks, **every
    )
    table.write_text(filled, encoding="utf-8")
    command = ["reproduce", f"table={table}"]
    training = [*command, "rows=[composite]"]
    try:
        session.do("whole", [*training, "stages=[pretrain]"])
        # a second one follows a failure
        session.say("starts of the whole", len(session.starts("pretrain/composite")))
        killed = root / "killed"
        link(root, killed)
        session.do(
            "killed",
            [*training, "stages=[pretrain]"],
            killed,
            until=lambda: reached(killed, steps * 2 // 5),
        )
        session.do("continued", [*training, "stages=[pretrain]"], killed)
        session.say("same bits", same(root, killed))
        session.say(
            "continued from step",
            [start["from_step"] for start in session.starts("killed/pretrain/")],
        )
        session.do("tuned", training)
        session.do("all rows", command)
    except TimeoutError:
        print("the time is over", file=sys.stderr)
    session.end_with(pack(root, asked.out))
    return (
        0
        if session.found.get("same bits") in (True, None)
        and session.found.get("starts of the whole", 1) == 1
        else 1
    )


def in_rounds(session: Session, table: str) -> int:
    """The table with one pre-training of every row, with two, and so on, as long as there is
    time."""
    experiment = load(table)
    engine, seeds = (
        ["engine=local", "workers=4"] if torch.cuda.is_available() else [],
        experiment.pretrain_seeds or [0],
    )
    try:
        for count in range(1, len(seeds) + 1):
            asked = f"pretrain_seeds=[{','.join(map(str, seeds[:count]))}]"
            session.do(
                f"{table}, {count} of {len(seeds)}", ["reproduce", f"table={table}", asked, *engine]
            )
    except TimeoutError:
        print("the time is over", file=sys.stderr)
    session.end_with(pack(session.root, session.out, largest=1_000_000))
    return 0


class Session:
    """Commands one after another, until the time is over.

    Args:
        root: RELPOS_RUNS.
        out: where real.json is written after each command.
        end: of `time.monotonic`.
    """

    def __init__(self, root: Path, out: Path, end: float) -> None:
        self.root, self.out, self.end = root, out, end
        self.found: dict[str, Any] = {}

    def do(
        self,
        name: str,
        overrides: list[str],
        root: Path | None = None,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Runs a command of relpos to its end, or kills it with all its processes once `until` says
        so.

        Raises:
            TimeoutError: the time is over; the command has been given ten seconds to write a
                checkpoint.
        """
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        began = time.monotonic()
        environment = os.environ | {"RELPOS_RUNS": str(root or self.root)}
        process = subprocess.Popen(
            [sys.executable, "-m", "relpos.cli", *overrides],
            env=environment,
            stdout=sys.stderr,
            start_new_session=True,
        )
        over = False
        while process.poll() is None and not until():
            time.sleep(0.05)
            if time.monotonic() > self.end:
                over = True
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                break
        ended = process.poll()
        if ended is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.say(
            name,
            {
                "seconds": round(time.monotonic() - began, 1),
                "ended": "killed" if ended is None else ended,
            },
        )
        self.figures()
        if over:
            raise TimeoutError

    def say(self, name: str, value: Any) -> None:
        """Keeps one fact."""
        self.found[name] = value
        (self.out / "real.json").write_text(
            json.dumps(self.found, indent=1) + "\n", encoding="utf-8"
        )

    def figures(self) -> None:
        """Keeps what the records and logs of all runs say, and the speed beside that of random
        tokens, where gpu.json has it."""
        runs = {}
        for path in sorted(
            [*self.root.glob("*/*/record.json"), *self.root.glob("killed/pretrain/*/record.json")]
        ):
            record = json.loads(path.read_text(encoding="utf-8"))
            log = path.with_name("metrics.jsonl")
            lines = (
                [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
                if log.exists()
                else []
            )
            runs[str(path.parent.relative_to(self.root))] = {
                "state": record["state"], "starts": record["starts"], "result": record.get("result"), "log": lines,
            }  # fmt: skip
        self.say("runs", runs)
        speeds = [
            line["real_tokens_per_second"]
            for name, run in runs.items() if name.startswith("pretrain/composite")
            for line in run["log"][1:] if "real_tokens_per_second" in line
        ]  # fmt: skip
        if speeds:
            self.say("million real tokens per second", 1e-6 * statistics.median(speeds))
            path = self.out / "gpu.json"
            synthetic = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            beside = synthetic.get("step_small", {}).get("ours position=composite")
            if beside:
                ratio = (
                    self.found["million real tokens per second"]
                    / beside["million_tokens_per_second"]
                )
                self.say("of the rate of random tokens", ratio)

    def end_with(self, packed: list[str]) -> None:
        """Keeps what there is at the end, and prints it as a table."""
        self.figures()
        self.say("carried", packed)
        print("\n".join(report(self.found)))

    def starts(self, prefix: str) -> list[dict[str, Any]]:
        """Of all runs whose name begins so."""
        return [
            start
            for name, run in self.found["runs"].items()
            if name.startswith(prefix)
            for start in run["starts"]
        ]


def reached(root: Path, step: int) -> bool:
    """Whether a run has logged that step."""
    return any(
        json.loads(line)["step"] >= step
        for path in root.glob("pretrain/*/metrics.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if line.endswith("\n")
    )


def link(root: Path, other: Path) -> None:
    """Another folder for runs, in which the data of the first one are there."""
    other.mkdir(parents=True, exist_ok=True)
    for name in ("toy", "tokenizer", "store"):
        if (root / name).exists() and not (other / name).exists():
            (other / name).symlink_to(root / name)


def same(root: Path, other: Path) -> bool | None:
    """Whether the weights of the runs that both folders have are the same bits; None where there is
    none."""
    files = [
        path.relative_to(root) for path in root.glob("pretrain/composite*/model/model.safetensors")
    ]
    both = [file for file in files if (other / file).exists()]
    return (
        all((root / file).read_bytes() == (other / file).read_bytes() for file in both)
        if both
        else None
    )


def pack(root: Path, out: Path, largest: int = PIECE * PIECES) -> list[str]:
    """Writes carry.0, … with the runs that fit, and returns their names. A fine-tuning goes without
    its weights, and every run without files of more than `largest` bytes."""
    folders = [
        path.parent
        for stage in ("tokenizer", "finetune", "pretrain")
        for path in sorted(root.glob(f"{stage}/*/record.json"))
    ]
    content, packed = io.BytesIO(), []
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        for folder in folders:
            files = [
                path
                for path in sorted(folder.rglob("*"))
                if path.is_file() and path.stat().st_size <= largest
            ]
            if folder.parent.name == "finetune":
                files = [path for path in files if path.parent.name != "model"]
            # What gzip cannot make smaller is at most as large as it was.
            if content.tell() + sum(path.stat().st_size for path in files) > PIECE * PIECES:
                print(f"{folder.relative_to(root)} is too large to be carried", file=sys.stderr)
                continue
            for path in files:
                archive.add(path, path.relative_to(root))
            archive.fileobj.flush()  # type: ignore[attr-defined]
            packed.append(str(folder.relative_to(root)))
    whole = content.getvalue()
    for number in range(PIECES):
        (out / f"carry.{number}").unlink(missing_ok=True)
    for number in range(-(-len(whole) // PIECE)):
        (out / f"carry.{number}").write_bytes(whole[number * PIECE : (number + 1) * PIECE])
    return packed


def unpack(folder: Path, root: Path) -> None:
    """Puts what an earlier session has packed where it was."""
    pieces = sorted(folder.glob("carry.*"))
    if pieces:
        whole = io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))
        with tarfile.open(fileobj=whole, mode="r:gz") as archive:
            archive.extractall(root, filter="data")


def report(figures: dict[str, Any]) -> list[str]:
    """A short table."""
    lines = ["", "| command | seconds | ended |", "| --- | ---: | --- |"]
    lines += [
        f"| {name} | {x['seconds']} | {x['ended']} |"
        for name, x in figures.items()
        if isinstance(x, dict) and "ended" in x
    ]
    lines += ["", "| run | state | starts | last line of its log |", "| --- | --- | ---: | --- |"]
    for name, run in figures.get("runs", {}).items():
        last = {key: float(f"{value:.4g}") for key, value in (run["log"] or [{}])[-1].items()}
        lines.append(
            f"| {name} | {run['state']} | {len(run['starts'])} | "
            f"{json.dumps(run['result'] or last)[:150]} |"
        )
    return [
        *lines,
        "",
        *(f"{name}: {value}" for name, value in figures.items() if not isinstance(value, dict)),
    ]


if __name__ == "__main__":
    sys.exit(main())
