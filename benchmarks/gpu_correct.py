"""Is it right on this GPU? Every kind of term beside float64, every preset in training, the same
bits each time.

    python benchmarks/gpu_correct.py [--seconds 150] [--workers N] [--out FOLDER] [--only WORD …]
    [--rehearse]

Terms: what the fastest attention kernel that serves them gives, in float32 and bfloat16, at 64, 70,
128 and 256 tokens, beside `eager` in float64. "of what is allowed" is the distance from float64
over what a proof allows (proof.py), "over eager" that over the distance of `eager` in the same
number format. Presets: 14 updates of a network in bfloat16, whose losses must fall, without a
warning. Bits: all gradients of one update, 200 times. All of it runs in processes side by side;
what aborts one is named, and the rest goes on.

Writes correct.json into FOLDER (benchmarks/results) as results come, and prints what is wrong and
the worst figures. `--rehearse` does the same at toy sizes on a CPU, with Triton's interpreter in
the place of its compiler.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import torch
from _gpu_steps import Ours, Tuning, device, free, need_gpu
from _presets import presets
from _report import RESULTS
from _workers import Result, Task, side_by_side
from torch import Tensor

from relpos.files import write_text
from relpos.model.kernels import FASTEST_FIRST, eager, name_of, proof
from relpos.model.kernels import triton as fused_triton
from relpos.model.kernels.proof import Kind
from relpos.model.position import Terms

LENGTHS = (64, 70, 128, 256)
UPDATES, REPEATS = 14, 200
FORMATS = (torch.float32, torch.bfloat16)
NO_TERMS: dict[str, Any] = {
    "head_dim": 64, "content": True, "offset": False, "query": None, "key": None, "dense": False, "value": None, "outside": "clamp",
}  # fmt: skip
AS_COMPOSITE = {"query": 64, "query_table": 17, "narrow": True, "query_bias": True}
KINDS: dict[str, dict[str, Any]] = {
    "composite": AS_COMPOSITE,
    "composite_key": AS_COMPOSITE | {"key": 64, "key_table": 17},
    "β, a": {"offset": True, "query": 17},
    "none": {},
    "β, a, b, D, u": {"offset": True, "query": 17, "key": 17, "dense": True, "value": 17},
    "β": {"offset": True},
    "a": {"query": 17},
    "b": {"key": 17},
    "D": {"dense": True},
    "u": {"value": 17},
    "a, b, zero outside": {"query": 17, "key": 17, "outside": "zero"},
    "β, a, 32 channels": {"offset": True, "query": 17, "head_dim": 32},
    "β, D, no content": {"offset": True, "dense": True, "content": False},
    "columns": {"query": 9, "columns": True},
    "reach": {"reach": 16},
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="tasks whose name has one of these"
    )
    parser.add_argument("--rehearse", action="store_true", help="at toy sizes, on a CPU")
    asked = parser.parse_args(arguments)
    start = time.monotonic()
    if not asked.rehearse:
        need_gpu("gpu_correct.py")
    tasks = {
        name: task
        for name, task in all_tasks(asked.rehearse).items()
        if any(word in name for word in asked.only)
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = {}
    written = 0.0
    for name, result in side_by_side(tasks, asked.workers, asked.seconds):
        results[name] = result
        if time.monotonic() - written > 1 or len(results) == len(tasks):
            write_text(
                asked.out / "correct.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n"
            )
            written = time.monotonic()
    print("\n".join(report(results)))
    wrong = sum(bool(result.get("fault")) for result in results.values())
    print(f"\n{len(results) - wrong} of {len(results)} right, {time.monotonic() - start:.0f} s")
    return min(1, wrong)


def all_tasks(rehearse: bool) -> dict[str, Task]:
    """In the order of their weight: what matters most, then what takes longest."""
    n, rows, size = (16, 2, "tiny") if rehearse else (128, 32, "small")
    # a second form of a preset is there for its time alone
    names = ["none", *(name for name in presets() if " " not in name)]
    slow = [
        "composite_key",
        "cope",
        "deberta",
        "dynamic",
        "huang4",
        "dual_triangle_split",
        "fox",
        "shaw",
        "inkling",
    ]
    names.sort(key=lambda name: slow.index(name[9:]) if name[9:] in slow else len(slow))
    sized = f"size={size}"
    tasks: dict[str, Task] = {
        "the same bits, composite": partial(
            bits, f"position=composite {sized}", rows, n, 3 if rehearse else REPEATS
        )
    }
    for name in names:
        tasks[f"train {name}"] = partial(train, Ours, f"{name} {sized}", rows, n)
    for label, more in {"modern": "block=modern", "causal": "size.attention=causal"}.items():
        tasks[f"train composite, {label}"] = partial(
            train, Ours, f"position=composite {more} {sized}", rows, n
        )
    for head in ("classifier", "discriminator"):
        for name in ("position=composite", "position=window", "conv=qkv"):
            tasks[f"{head} {name}"] = partial(
                train, partial(Tuning, head=head), f"{name} {sized}", rows, n
            )
    lengths = (16,) if rehearse else LENGTHS
    for kind, keys in KINDS.items():
        tasks |= {
            f"terms {kind}, {str(dtype)[6:]}, n={length}": partial(terms, keys, dtype, length, True)
            for length in lengths for dtype in FORMATS
        }  # fmt: skip
    for kind, keys in KINDS.items():  # without padding and dropout the programs are others
        tasks |= {
            f"terms {kind}, {str(dtype)[6:]}, n={length}, all real, no dropout": partial(terms, keys, dtype, length, False)
            for length in lengths[2:] or lengths for dtype in FORMATS
        }  # fmt: skip
    return tasks


def terms(keys: dict[str, Any], dtype: torch.dtype, n: int, padded: bool) -> Result:
    """The worst of output and gradients: its distance from float64 over what the proof allows, and
    over that of eager."""
    kind = Kind(device=device(), dtype=dtype, **(NO_TERMS | keys))
    asked = Terms(columns=torch.zeros(1) if kind.columns else None, reach=kind.reach)
    v = torch.zeros(1, 1, n, kind.head_dim, device=device(), dtype=dtype)
    kernel = next(kernel for kernel in FASTEST_FIRST if kernel.supports(asked, v, True))
    if device().type == "cpu" and not (kind.columns or kind.reach):
        kernel = fused_triton  # in its interpreter
    exact, plain, tested = (
        proof.results(which, kind, n, padded, proof.RATE if padded else 0.0, number)
        for which, number in ((eager, torch.float64), (eager, dtype), (kernel, dtype))
    )
    worst: dict[str, tuple[float, str]] = {}
    for name, expected in exact.items():
        error, beside = (float((tensors[name] - expected).norm()) for tensors in (tested, plain))
        bound = error / proof.allowed(plain[name], expected, dtype)
        for column, value in {"bound": bound, "eager": error / beside if beside else 1.0}.items():
            value = math.inf if math.isnan(value) else value
            worst[column] = max(worst.get(column, (0.0, "")), (round(value, 3), name))
    fault = (
        {}
        if worst["bound"][0] <= 1
        else {"fault": f"its {worst['bound'][1]} is {worst['bound'][0]} of what is allowed"}
    )
    return {"kernel": name_of(kernel), **worst, **fault}


def train(make: Any, overrides: str, rows: int, n: int) -> Result:
    """14 updates at a rate at which the losses must fall."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work = make(overrides, rows, n)
        losses = [float(work()) for _ in range(UPDATES)]
        seconds = []
        for _ in range(3):
            before = time.perf_counter()
            float(work())
            seconds.append(time.perf_counter() - before)
    messages = [
        str(warning.message).partition("\n")[0]
        for warning in caught
        if issubclass(warning.category, UserWarning)
    ]
    result: Result = {
        "kernels": work.kernels(),
        "losses": losses,
        "milliseconds": round(1e3 * min(seconds), 2),
    }
    del work
    free()
    falls = sum(losses[-4:]) < sum(losses[:4])  # false of NaN
    faults = [
        *messages,
        *([] if falls else [f"losses do not fall: {losses[0]:.3f} to {losses[-1]:.3f}"]),
    ]
    return result | ({"fault": "; ".join(dict.fromkeys(faults))} if faults else {})


def bits(overrides: str, rows: int, n: int, repeats: int) -> Result:
    """All gradients of one update, again and again."""
    work = Ours(overrides, 8 * rows, n)
    first: dict[str, Tensor] = {}
    for repeat in range(repeats):
        work.gradients(0)
        grads = work.step.gradients
        first = first or {name: grad.clone() for name, grad in grads.items()}
        differ = [name for name, grad in grads.items() if not torch.equal(first[name], grad)]
        if differ:
            return {
                "fault": f"other bits in repeat {repeat} of {len(differ)} of {len(grads)} "
                f"gradients: {', '.join(differ[:4])}"
            }
        torch._foreach_zero_([*grads.values()])
    return {"kernels": work.kernels(), "repeats": repeats}


def report(results: dict[str, Result]) -> list[str]:
    """What is wrong, and the worst figure of each kind of terms."""
    lines = [
        f"WRONG  {name}: {result['fault']}"
        for name, result in results.items()
        if result.get("fault", "unfinished") != "unfinished"
    ]
    unfinished = [name for name, result in results.items() if result.get("fault") == "unfinished"]
    lines += (
        [f"unfinished: {len(unfinished)}, {', '.join(unfinished)[:400]} …"] if unfinished else []
    )
    lines += [
        "",
        "| terms | kernel | of what is allowed | at | over eager | at |",
        "| --- | --- | ---: | --- | ---: | --- |",
    ]
    for dtype in FORMATS:
        for kind in KINDS:
            begin = f"terms {kind}, {str(dtype)[6:]}, "
            rows = {
                name.removeprefix(begin): x
                for name, x in results.items()
                if name.startswith(begin) and "bound" in x
            }
            if rows:
                cells = [
                    f"{kind}, {str(dtype)[6:]}",
                    ", ".join(sorted({row["kernel"] for row in rows.values()})),
                ]
                for column in ("bound", "eager"):
                    (value, of), at = max((tuple(row[column]), at) for at, row in rows.items())
                    cells += [f"{value:.2f}", f"{of}, {at}"]
                lines.append("| " + " | ".join(cells) + " |")
    trained = [(name, x) for name, x in results.items() if "losses" in x]
    used = {
        kernels: sum(x["kernels"] == kernels for _, x in trained)
        for kernels in sorted({x["kernels"] for _, x in trained})
    }
    lines += ["", f"trained: {len(trained)}; by attention kernel: {used}"]
    slowest = sorted(trained, key=lambda pair: -pair[1]["seconds"])[:5]
    lines.append("longest: " + ", ".join(f"{name} {x['seconds']:.0f} s" for name, x in slowest))
    lines += [
        f"{name}: {x['repeats']} times, {x['kernels']}"
        for name, x in results.items()
        if "repeats" in x
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
