"""The whole pre-training step of BERT-small or BERT-base, 16 × 128 on CPU: ours beside Hugging
Face's, interleaved in one run.

    python benchmarks/step.py [--size small|base] [--repeats 7] [--threads N] [--store FOLDER]

A step is forward, backward, clipping and AdamW. Ratios are taken within a repeat, so that what else
the machine does hits both sides, and both reuse freed memory; "best Hugging Face" is its fastest of
eager and SDPA, fp32 and bf16 autocast. Ours over our own `none` is a race of its own, with more
repeats; so is the step in somebody else's loop. A large matrix product runs in the rotation as the
ceiling. Peak memory is that of separate processes. With a token store, also real tokens per second
on real sentence pairs.
Writes benchmarks/results/step.json and step.md, for base step_base. Expect five minutes on two
quiet cores, for base half an hour. A whole update of a small network: update.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import Batch, contestant, flops, full_batch, keep_freed_memory, plain_loop

RESULTS = Path(__file__).parent / "results"
MORE = 4  # times the repeats for ours among themselves: small differences, cheap steps
Runs = dict[str, Callable[[], Any]]
Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=("small", "base"), default="small")
    parser.add_argument("--repeats", type=int, help="7; of base 3")
    parser.add_argument(
        "--rows", type=int, default=16, help="sequences of a batch; for trying the script out"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--store", help="folder of a token store; by default the newest below $RELPOS_RUNS"
    )
    parser.add_argument("--memory", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.repeats = asked.repeats or (7 if asked.size == "small" else 3)
    torch.set_num_threads(asked.threads)
    if asked.memory:
        return print(json.dumps(_memory_of(asked.memory, asked.rows)))
    keep_freed_memory()
    precisions = ["fp32", "bf16"] if torch.ops.mkldnn._is_mkldnn_bf16_supported() else ["fp32"]
    result: dict[str, Any] = {"machine": machine(asked.threads), "repeats": asked.repeats}
    result |= {"size": asked.size, "rows": asked.rows}
    result["step"] = full_steps(precisions, asked.repeats, asked.size, asked.rows)
    if asked.size == "small":
        result["plain_loop"] = plain_loops(precisions[-1], asked.repeats, asked.rows)
    best = result["step"]["hugging_face_best"]
    result["memory"] = memory(
        [
            best,
            *(
                f"ours/{kind} size={asked.size}/{p}"
                for p in precisions
                for kind in ("none", "composite")
            ),
        ],
        asked.rows,
    )
    store = Path(asked.store) if asked.store else newest_store()
    if store is not None and asked.size == "small":
        result["real_pairs"] = real_pairs(store, best, precisions, max(5, asked.repeats - 2))
    RESULTS.mkdir(exist_ok=True)
    name = "step" if asked.size == "small" else f"step_{asked.size}"
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(report(result), encoding="utf-8")
    print(report(result))


def full_steps(precisions: list[str], repeats: int, size: str, rows: int) -> dict[str, Any]:
    """Times of every contestant on rows × 128, and their ratios."""
    batch = full_batch(rows)
    names = [f"hf/{kind} size={size}/{p}" for p in precisions for kind in ("eager", "sdpa")]
    kinds = ("none", "fixed", "dynamic", "composite") if size == "small" else ("none", "composite")
    names += [f"ours/{kind} size={size}/{p}" for p in precisions for kind in kinds]
    runs: Runs = {name: partial(contestant(name), [batch]) for name in names}
    runs |= {f"ceiling/{p}": ceiling(p) for p in precisions}
    times = race(runs, repeats)
    more = MORE * repeats if size == "small" else repeats
    schemes = {
        p: race(
            {name: runs[name] for name in names if name.startswith("ours/") and name.endswith(p)},
            more,
        )
        for p in precisions
    }
    best = min(
        (name for name in times if name.startswith("hf/")),
        key=lambda name: statistics.median(times[name]),
    )
    predicted = int(batch.labels.ne(-100).sum())
    needed = {side: flops(side, rows, 128, predicted, size) for side in ("ours", "hf")}
    return {
        "seconds": {name: spread(values) for name, values in times.items()},
        "tokens_per_second": {
            name: rows * 128 / statistics.median(values)
            for name, values in times.items()
            if "ceiling" not in name
        },
        "hugging_face_best": best,
        "speed_over_hugging_face_best": {
            name: spread(ratios(times[best], times[name]))
            for name in names
            if name.startswith("ours/")
        },
        "time_over_none": {
            f"{kind}/{p}": spread(
                ratios(own[f"ours/{kind} size={size}/{p}"], own[f"ours/none size={size}/{p}"])
            )
            for p, own in schemes.items()
            for kind in kinds[1:]
        },
        "share_of_ceiling": {
            p: spread(
                [
                    needed["ours"] / a
                    for a in ratios(
                        times[f"ours/none size={size}/{p}"], per_flop(times[f"ceiling/{p}"])
                    )
                ]
            )
            for p in precisions
        },
        "flops": {**needed, "avoided": needed["hf"] / needed["ours"]},
    }


def plain_loops(precision: str, repeats: int, rows: int) -> dict[str, Any]:
    """Ours and Hugging Face's in a loop that is nobody's: speed over the better of its two, and
    composite over none."""
    batch, size = full_batch(rows), "size=small"
    names = [
        f"{kind} {size}/{precision}"
        for kind in ("hf/eager", "hf/sdpa", "ours/none", "ours/composite")
    ]
    times = race({name: partial(plain_loop(name), batch) for name in names}, MORE * repeats)
    eager, sdpa, none, composite = times.values()
    best = min((eager, sdpa), key=statistics.median)
    return {
        "seconds": {name: spread(values) for name, values in times.items()},
        "none over the best": spread(ratios(best, none)),
        "composite over the best": spread(ratios(best, composite)),
        "time of composite over none": spread(ratios(composite, none)),
    }


def ceiling(precision: str) -> Callable[[], Any]:
    """A product of two square matrices of 2,048 columns."""
    a = torch.randn(2048, 2048, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    return lambda: a @ a


def race(runs: Runs, repeats: int) -> Times:
    """Seconds of each, one of each a repeat, every repeat starting elsewhere; one round before does
    not count."""
    names = list(runs)
    times: Times = {name: [] for name in names}
    for repeat in range(repeats + 1):
        start = repeat % len(names)
        for name in names[start:] + names[:start]:
            before = time.perf_counter()
            runs[name]()
            if repeat:
                times[name].append(time.perf_counter() - before)
        print(f"round {repeat} of {repeats}", file=sys.stderr)
    return times


def per_flop(times: list[float]) -> list[float]:
    """Seconds a floating-point operation takes in the ceiling's product."""
    return [seconds / (2 * 2048**3) for seconds in times]


def ratios(above: Iterable[float], below: Iterable[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def memory(names: list[str], rows: int) -> dict[str, Any]:
    """Peak memory in MB of a process that takes three steps, and what it had before it made the
    model."""
    megabytes = {}
    for name in names:
        command = [
            sys.executable,
            __file__,
            "--memory",
            name,
            "--rows",
            str(rows),
            "--threads",
            str(torch.get_num_threads()),
        ]
        megabytes[name] = json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        )
    base = megabytes[names[0]]
    share = {
        name: {key: value[key] / base[key] for key in ("peak", "above_start")}
        for name, value in megabytes.items()
    }
    return {"megabytes": megabytes, "share_of_hugging_face": share}


def _memory_of(name: str, rows: int) -> dict[str, float]:
    if name.startswith("hf/"):
        import transformers.models.bert.modeling_bert  # noqa: F401
    before = _peak()
    step, batch = contestant(name), full_batch(rows)
    for _ in range(3):
        step([batch])
    peak = _peak()
    return {"start": before, "peak": peak, "above_start": peak - before}


def _peak() -> float:
    """Most memory this program ever held, MB. Not `ru_maxrss`: that starts at the size of the
    process that forked us."""
    status = Path("/proc/self/status")
    if status.exists():
        return (
            next(
                int(line.split()[1])
                for line in status.read_text().splitlines()
                if line.startswith("VmHWM")
            )
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def newest_store() -> Path | None:
    stores = (Path(os.environ.get("RELPOS_RUNS", "runs")) / "store").glob("*/manifest.json")
    return max(
        (path.parent for path in stores), key=lambda path: path.stat().st_mtime, default=None
    )


def real_pairs(folder: Path, best: str, precisions: list[str], repeats: int) -> dict[str, Any]:
    """One update of 128 real pairs: ours in buckets by length; Hugging Face's best padded to 128,
    and in the same buckets."""
    from relpos.data.steps import Steps
    from relpos.data.store import Store

    store = Store(folder)
    steps = Steps(store.examples("train", "pair", 128), 0, 128, 16, store.vocabulary)
    step = steps.step(0)
    buckets = [Batch(m.input_ids, m.labels, m.attention_mask) for m in step.microbatches]
    padded = [
        Batch(
            *(
                _pad(x, value)
                for x, value in ((b.input_ids, 0), (b.labels, -100), (b.attention_mask, 0))
            )
        )
        for b in buckets
    ]
    rivals = {"hf padded to 128": (best, padded), "hf in the same buckets": (best, buckets)}
    rivals |= {f"ours in buckets, {p}": (f"ours/none/{p}", buckets) for p in precisions}
    runs: Runs = {name: partial(contestant(kind), data) for name, (kind, data) in rivals.items()}
    times = race(runs, repeats)
    our = [name for name in times if name.startswith("ours")]
    return {
        "hugging_face": best,
        "real_tokens": step.tokens,
        "padding_share_in_buckets": 1 - step.tokens / sum(b.input_ids.numel() for b in buckets),
        "real_tokens_per_second": {
            name: step.tokens / statistics.median(values) for name, values in times.items()
        },
        "speed": {
            f"{name} over {rival}": spread(ratios(times[rival], times[name]))
            for name in our
            for rival in ("hf padded to 128", "hf in the same buckets")
        },
    }


def _pad(x: torch.Tensor | None, value: int) -> Any:
    return None if x is None else torch.nn.functional.pad(x, (0, 128 - x.shape[1]), value=value)


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on; no names."""
    info = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    )
    names = [
        line.partition(":")[2].strip()
        for line in info.splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": names[0] if names else platform.processor(),
        "threads": threads,
        "bf16 in hardware": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
        "torch": torch.__version__,
        "load before": round(os.getloadavg()[0], 2),
    }


def report(result: dict[str, Any]) -> str:
    """The figures as Markdown."""
    step, lines = (
        result["step"],
        [f"# The pre-training step of BERT-{result['size']}, {result['rows']} × 128, on CPU", ""],
    )
    lines += [
        ", ".join(f"{key}: {value}" for key, value in result["machine"].items())
        + f"; {result['repeats']} repeats, {MORE * result['repeats']} of schemes over none.",
        "",
    ]
    lines += [
        f"Best Hugging Face: `{step['hugging_face_best']}`. Medians (lowest – highest); "
        f"ratios within a repeat.",
        "",
    ]
    lines += [
        "| step | seconds | tokens/s | speed over best Hugging Face |",
        "| --- | --- | --- | --- |",
    ]
    for name, speed in step["tokens_per_second"].items():
        ratio = step["speed_over_hugging_face_best"].get(name)
        lines.append(
            f"| {name} | {_cell(step['seconds'][name], 3)} | {speed:,.0f} | "
            f"{_cell(ratio) if ratio else ''} |"
        )
    lines += ["", "| scheme | time over none |", "| --- | --- |"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in step["time_over_none"].items()]
    lines += ["", "Share of the matrix-product ceiling, ours with `none`: "]
    lines[-1] += (
        "; ".join(f"{p} {_cell(value)}" for p, value in step["share_of_ceiling"].items()) + "."
    )
    lines += [
        f"Hugging Face's step needs {step['flops']['avoided']:.2f} times our operations: we run "
        f"the head and the end of the "
        "last layer at masked tokens only and have embeddings of their own width. That much of the "
        "ratio is work avoided; the rest "
        "is work done faster.",
    ]
    if plain := result.get("plain_loop"):
        lines += [
            "",
            "In a plain loop, `torch.autocast`, the mean loss and AdamW as torch makes "
            "it, for both sides:",
            "",
        ]
        lines += [
            "| | seconds |",
            "| --- | --- |",
            *(f"| {name} | {_cell(value, 3)} |" for name, value in plain["seconds"].items()),
        ]
        lines += [
            "",
            "; ".join(
                f"{name} {_cell(value)}" for name, value in plain.items() if name != "seconds"
            )
            + ".",
        ]
    lines += [
        "",
        "| peak memory | MB | share | above start, MB | share |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, value in result["memory"]["megabytes"].items():
        share = result["memory"]["share_of_hugging_face"][name]
        lines.append(
            f"| {name} | {value['peak']:.0f} | {share['peak']:.2f} | {value['above_start']:.0f} | "
            f"{share['above_start']:.2f} |"
        )
    if "real_pairs" in result:
        pairs = result["real_pairs"]
        lines += [
            "",
            f"## Real sentence pairs, an update of 128 ({pairs['real_tokens']:,} real tokens)",
            "",
        ]
        lines += ["| | real tokens/s |", "| --- | --- |"]
        lines += [
            f"| {name} | {value:,.0f} |" for name, value in pairs["real_tokens_per_second"].items()
        ]
        lines += ["", "| | speed |", "| --- | --- |"]
        lines += [f"| {name} | {_cell(value)} |" for name, value in pairs["speed"].items()]
    return "\n".join(lines) + "\n"


def _cell(value: dict[str, float], digits: int = 2) -> str:
    return f"{value['median']:.{digits}f} ({value['min']:.{digits}f} – {value['max']:.{digits}f})"


if __name__ == "__main__":
    main()
