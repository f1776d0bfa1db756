"""How fast is it on a GPU? Steps and attention alone beside Hugging Face, FlexAttention and SDPA,
in turns in one run.

    python benchmarks/gpu.py [--seconds 150] [--repeats 7] [--sizes small base] [--only NAME …]
    [--parts NAME …]
                             [--out FOLDER] [--resume] [--rehearse]

A step is 256 × 128 random tokens, 15 % predicted: forward, backward, clipping and fused AdamW in
bf16. Ours takes the path of a training run (`relpos.train.recorded`, CUDA graphs). Hugging Face's
BERT of the first size runs eager, with SDPA and compiled. Attention alone has the terms of
`composite` (β and a, k = 8), forward and backward, beside compiled FlexAttention with the same
terms and SDPA with the terms as one tensor, all without dropout, and ours with dropout besides;
and, where flashdeberta is installed, DeBERTa's two terms, of every offset, beside it. Each of these
is timed as a recorded CUDA graph, and by plain calls, of which most are waited for longer than they
run. A large matrix product runs in every rotation as the ceiling; times are medians. `profile` says
which kernels an update of composite launches, and how long they take.

The parts come in the order of their weight, and none begins after `--seconds`: steps, profile and
attention first, then every preset in turns with `none`, steps of 32 short rows with and without
graphs, other lengths. What must be compiled is compiled before, by processes side by side.

Writes gpu.json into FOLDER (benchmarks/results) after each part, and gpu.md at the end. `--resume`
keeps what such a file there already has of the same machine and settings. `--rehearse` runs
everything once at toy sizes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import torch
from _contestants import VOCABULARY, size_of
from _gpu_steps import PEERS, Ours, Work, device, free, hugging_face, need_gpu
from _presets import presets
from _report import RESULTS, machine
from _workers import Task, side_by_side
from torch import Tensor, nn

from relpos.files import write_text
from relpos.model.dropout import Draw
from relpos.model.kernels import eager
from relpos.model.kernels import triton as fused_triton
from relpos.model.position import Terms

K = 8
FIRST = ["position=absolute", "position=tisa", "position=rope", "conv=depthwise", "conv=qkv"]
SAMPLE = 4
"""Updates between two readings of the clock: before the first of them the GPU has nothing to do."""
Part = Callable[[], dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="no part begins later")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", nargs="+", default=["small", "base"])
    parser.add_argument("--rows", type=int, default=256, help="sequences of a step")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these presets, such as position=tisa"
    )
    parser.add_argument(
        "--parts", nargs="+", metavar="NAME", help="these parts alone, such as step_small"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument(
        "--resume", action="store_true", help="measure only what FOLDER/gpu.json does not have"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="everything once at toy sizes, on a CPU"
    )
    asked = parser.parse_args(arguments)
    if asked.rehearse:
        parser.set_defaults(repeats=1, sizes=["tiny"], rows=2, only=FIRST[:1])
        asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    length = 16 if asked.rehearse else 128
    names = asked.only or [
        *FIRST,
        *(name for name in presets() if name not in [*FIRST, "position=composite"]),
    ]
    work = parts(asked.sizes, asked.rows, length, names, asked.repeats, asked.rehearse)
    work = {name: part for name, part in work.items() if name in (asked.parts or work)}
    if not asked.rehearse:
        need_gpu("gpu.py")
        compile_all(asked.sizes, asked.rows, length, 75)
    settings: dict[str, Any] = {
        "machine": machine() | {"gpu": torch.cuda.get_device_name() if device().type == "cuda" else "none"},
        "versions": {"torch": torch.__version__} | {name: _version(name) for name in ("triton", "transformers")},
        "repeats": asked.repeats, "rows": asked.rows, "length": length, "presets": names,
    }  # fmt: skip
    result = settings | (_kept(asked.out, settings) if asked.resume else {})
    asked.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _stop)
    try:
        for name, part in work.items():
            if name in result:
                continue
            if time.monotonic() > end:
                print(f"no time was left for {name} and what follows it", file=sys.stderr)
                break
            began = time.monotonic()
            try:
                result[name] = part()
            except (
                RuntimeError,
                ImportError,
            ) as error:  # too little memory, say: the other parts go on
                print(
                    f"{name}: {type(error).__name__}: {str(error).strip()[:300]}", file=sys.stderr
                )
            free()
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            write_text(asked.out / "gpu.json", json.dumps(result, indent=1) + "\n")
    except TimeoutError:
        print(f"stopped in {name}", file=sys.stderr)
    write_text(asked.out / "gpu.md", report(result))
    print(report(result))


def _stop(*_: Any) -> None:
    raise TimeoutError


def parts(
    sizes: Sequence[str], rows: int, n: int, names: Sequence[str], repeats: int, rehearse: bool
) -> dict[str, Part]:
    """By name, in the order of their weight."""
    long, others = (16, []) if rehearse else (2048, [256, 512, 1024])
    parts: dict[str, Part] = {}
    for size in sizes:
        peers = PEERS if size == sizes[0] else ()
        parts[f"step_{size}"] = partial(
            steps, size, rows, n, ["none", "position=composite"], peers, repeats
        )
        if size == sizes[0]:
            parts[f"profile_{size}"] = partial(profile, f"position=composite size={size}", rows, n)
            parts |= {
                f"attention_{m}": partial(attention, m, max(1, rows * n // m), repeats)
                for m in (n, long)
            }
    for at in range(0, len(names), 5):
        parts[f"step_{sizes[0]}_{at // 5 + 1}"] = partial(
            steps, sizes[0], rows, n, ["none", *names[at : at + 5]], (), repeats
        )
    for m in [16] if rehearse else [64, 128, 256]:
        parts[f"graphs_{m}"] = partial(graphs, sizes[0], min(rows, 32), m, repeats)
    return parts | {
        f"attention_{m}": partial(attention, m, max(1, rows * n // m), repeats) for m in others
    }


def compile_all(sizes: Sequence[str], rows: int, n: int, seconds: float) -> None:
    """Compiles what the first parts need, so that the disk has it. This process must not have
    touched the GPU before."""

    def twice(make: Callable[[], Work]) -> dict[str, Any]:
        work = make()
        work()
        work()
        return {}

    tasks: dict[str, Task] = {
        f"Hugging Face, {sizes[0]}": partial(
            twice, partial(hugging_face, sizes[0], "compiled", rows, n)
        )
    }
    for m in (n, 2048):
        tasks[f"FlexAttention, {m}"] = partial(twice, partial(_flex_work, max(1, rows * n // m), m))
        for rate in (0.0, 0.1):
            make = partial(attention_work, partial(_triton, rate=rate), max(1, rows * n // m), m)
            tasks[f"triton, {m}, {rate}"] = partial(twice, make)
    for size in sizes:  # what Triton compiles does not depend on the number of rows
        tasks |= {
            f"{name}, {size}": partial(twice, partial(ours, size, name, 16, n))
            for name in ("none", "position=composite")
        }
    for name, result in side_by_side(tasks, len(os.sched_getaffinity(0)), seconds):
        print(
            f"compiled: {name}, {result.get('fault', '')} {result.get('seconds', seconds)} s",
            file=sys.stderr,
        )


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _kept(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What the file there has, where it is of the same machine and settings."""
    path = folder / "gpu.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return results if all(results.get(key) == value for key, value in settings.items()) else {}


def ours(size: str, name: str, rows: int, n: int, recorded: bool = True) -> Ours:
    return Ours(f"{name} size={size}", rows, n, recorded)


def steps(
    size: str, rows: int, n: int, names: Sequence[str], peers: Sequence[str], repeats: int
) -> dict[str, Any]:
    """{contestant: milliseconds, tokens a second, time over that of none, that of compiled Hugging
    Face over it, …}."""
    runs: dict[str, Work] = {"ceiling": ceiling()}
    runs |= {f"Hugging Face {kind}": hugging_face(size, kind, rows, n) for kind in peers}
    runs |= {f"ours {name}": ours(size, name, rows, n) for name in names}
    times = race(runs, repeats)
    per_flop = statistics.median(times["ceiling"]) / (2 * _side() ** 3)
    figures: dict[str, Any] = {}
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        figures[name] = {"milliseconds": 1e3 * middle}
        if name == "ceiling":
            figures[name]["teraflops_per_second"] = 1e-12 / per_flop
            continue
        figures[name]["million_tokens_per_second"] = 1e-6 * rows * n / middle
        for column, other, mine in (
            ("over_none", "ours none", 0),
            ("hugging_face_over_it", "Hugging Face compiled", 1),
        ):
            if other in times:
                pairs = [
                    (b, a) if mine else (a, b) for a, b in zip(seconds, times[other], strict=True)
                ]
                figures[name][column] = statistics.median(a / b for a, b in pairs)
        if name.startswith("ours"):
            figures[name]["share_of_ceiling"] = flops(size_of(size), rows, n) * per_flop / middle
            figures[name]["kernels"] = runs[name].kernels()  # type: ignore[attr-defined]
    return figures


def profile(overrides: str, rows: int, n: int) -> dict[str, Any]:
    """{kernel: microseconds, launches} of an update, the longest first; `all` sums them up."""
    from torch.profiler import ProfilerActivity

    work, updates = Ours(overrides, rows, n), 3
    for _ in range(3):
        work()
    activities = [
        ProfilerActivity.CPU,
        *([ProfilerActivity.CUDA] if device().type == "cuda" else []),
    ]
    with torch.profiler.profile(activities=activities) as seen:
        for _ in range(updates):
            work()
        if device().type == "cuda":
            torch.cuda.synchronize()
    on_gpu = device().type == "cuda"
    rows_ = {
        event.key[:110]: {
            "microseconds": (event.self_device_time_total if on_gpu else event.self_cpu_time_total)
            / updates,
            "launches": event.count / updates,
        }
        for event in seen.key_averages()
        if not on_gpu or event.self_device_time_total > 0
    }
    ordered = dict(sorted(rows_.items(), key=lambda pair: -pair[1]["microseconds"]))
    total = {
        column: sum(row[column] for row in ordered.values())
        for column in ("microseconds", "launches")
    }
    return {"all": total} | dict(list(ordered.items())[:60])


def graphs(size: str, rows: int, n: int, repeats: int) -> dict[str, Any]:
    """{contestant: milliseconds} of steps of a few short rows, whose launches take as long as what
    they launch."""
    runs = {
        f"{name}{', no graphs' * (not recorded)}": ours(size, name, rows, n, recorded)
        for name in ("none", "position=composite") for recorded in (True, False)
    }  # fmt: skip
    return {
        name: {"milliseconds": 1e3 * statistics.median(seconds)}
        for name, seconds in race(dict(runs), repeats).items()
    }


def attention(n: int, rows: int, repeats: int) -> dict[str, Any]:
    """{kind: milliseconds recorded and by plain calls, megabytes above the inputs} of 4 heads of
    64, forward and backward to q, k, v, β and a."""
    ways: dict[str, Callable[..., Tensor]] = {
        "triton": _triton, "triton, dropout": partial(_triton, rate=0.1), "eager": _eager, "SDPA, terms as a tensor": _sdpa,
        "SDPA by cuDNN, terms as a tensor": _sdpa_cudnn, "FlexAttention, compiled": _flex(),
    }  # fmt: skip
    runs: dict[str, Work] = {name: attention_work(way, rows, n) for name, way in ways.items()}
    runs["triton, no terms"] = attention_work(_triton_plain, rows, n, ())
    runs["SDPA, no terms"] = attention_work(
        lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v), rows, n, ()
    )
    if n <= 512:  # beyond, ours would hold both terms of every offset for every token: gigabytes
        tables = [(1, 4, 2 * n, 64)] * 2
        runs["DeBERTa's terms, triton"] = attention_work(_deberta, rows, n, tables)
        if (flash := _flash_deberta()) is not None:
            runs["DeBERTa's terms, FlashDeBERTa"] = attention_work(flash, rows, n, tables)
    memory, captured = {}, {}
    for name in list(runs):
        try:
            memory[name] = _peak(runs[name])
            captured[name] = as_graph(runs[name])
        except Exception as error:  # of others' code, or too little memory: the rest goes on
            print(
                f"{name}, {n} tokens: {type(error).__name__}: {str(error).strip()[:200]}",
                file=sys.stderr,
            )
            del runs[name]
    times = [race(contestants, repeats) for contestants in (captured, runs)]
    return {
        name: {
            "milliseconds": 1e3 * statistics.median(times[0][name]), "plain_calls": 1e3 * statistics.median(times[1][name]),
            "megabytes": memory[name],
        }
        for name in runs
    }  # fmt: skip


def as_graph(work: Work) -> Work:
    """The same as a CUDA graph; without a GPU, as it is."""
    if device().type != "cuda":
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def attention_work(
    way: Callable[..., Tensor], rows: int, n: int, more: Sequence[tuple[int, ...]] | None = None
) -> Work:
    """Of q, k and v, and of what has the shapes `more`: by default β (h, 2n−1) and a (b, h, n,
    2k+1)."""
    torch.manual_seed(0)
    heads, width = 4, 64
    shapes: list[tuple[int, ...]] = [(rows, heads, n, width)] * 3
    shapes += [(heads, 2 * n - 1), (rows, heads, n, 2 * K + 1)] if more is None else more
    x = [
        torch.randn(shape, device=device(), dtype=torch.bfloat16, requires_grad=True)
        for shape in shapes
    ]
    upstream = torch.randn(shapes[0], device=device(), dtype=torch.bfloat16)

    def once() -> tuple[Tensor, ...]:
        return torch.autograd.grad(way(*x), x, upstream)

    return once


def _triton(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor, rate: float = 0.0) -> Tensor:
    return fused_triton.attention(q / 8, k, v, Terms(offset=beta, query=a), None, Draw(rate, 1))


def _triton_plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return fused_triton.attention(q / 8, k, v, Terms(), None, Draw(0.0, 1))


def _eager(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    return eager.attention(q / 8, k, v, Terms(offset=beta, query=a), None, (0.0, 0))


def _sdpa(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    bias = eager.scores(None, None, Terms(offset=beta, query=a), v)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def _sdpa_cudnn(*x: Tensor) -> Tensor:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if device().type == "cuda" else SDPBackend.MATH):
        return _sdpa(*x)


def _deberta(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, queries: Tensor) -> Tensor:
    """q·r^k and k·r^q, where r (1, h, 2n, d) has a row for each offset; the first is that of an
    offset that there is not."""
    a, b = (x / 8 @ table[:, :, 1:].mT for x, table in ((q, keys), (k, queries)))
    return fused_triton.attention(q / 8, k, v, Terms(query=a, key=b), None, Draw(0.0, 1))


def _flash_deberta() -> Callable[..., Tensor] | None:
    """The same by flashdeberta, on CUDA, where it is installed."""
    try:
        from flashdeberta.ops.flash_attention import flash_attention_with_disentangled
    except ImportError:
        return None
    if device().type != "cuda":
        return None

    def way(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, queries: Tensor) -> Tensor:
        y: Tensor = flash_attention_with_disentangled(
            q, k, v, None, keys, queries, sm_scale=1 / 8, max_relative_distance=q.shape[2]
        )
        return y

    return way


def _flex_work(rows: int, n: int) -> Work:
    """In the process that does it: what is compiled there cannot be handed on."""
    return attention_work(_flex(), rows, n)


def _flex() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention) if device().type == "cuda" else flex_attention

    def way(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Tensor:
        n = q.shape[2]

        def with_terms(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + beta[h, j - i + n - 1] + a[b, h, i, (j - i).clamp(-K, K) + K]

        if device().type != "cuda":  # where it has no backward pass
            with torch.no_grad():
                compiled(q.detach(), k.detach(), v.detach(), score_mod=with_terms)
            return _eager(q, k, v, beta, a)
        y: Tensor = compiled(q, k, v, score_mod=with_terms)
        return y

    return way


def _side() -> int:
    return 8192 if device().type == "cuda" else 128


def ceiling() -> Work:
    """A product of two square matrices in bfloat16."""
    x = torch.randn(_side(), _side(), device=device(), dtype=torch.bfloat16)
    return lambda: x @ x


def flops(size: dict[str, Any], rows: int, n: int) -> float:
    """Of one of our steps: forward × 3, matrix products only, the head at the predicted tokens."""
    d, e, ffn, layers = size["hidden"], size["embedding"], size["ffn"], size["layers"]
    tokens = rows * n
    encoder = layers * (tokens * (4 * d * d + 2 * d * ffn) + 2 * tokens * n * d)
    return 6.0 * (
        encoder + (tokens * e * d if e != d else 0) + 0.15 * tokens * (d * e + e * VOCABULARY)
    )


def race(runs: dict[str, Work], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, one of each a repeat, every repeat starting elsewhere; on a GPU three rounds
    before do not count."""
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(-3 if device().type == "cuda" else 0, repeats):
        start = repeat % len(names)
        for name in names[start:] + names[:start]:
            seconds = _seconds(runs[name])
            if repeat >= 0:
                times[name].append(seconds)
    return times


def _seconds(work: Work) -> float:
    if device().type != "cuda":
        before = time.perf_counter()
        work()
        return time.perf_counter() - before
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(SAMPLE):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / SAMPLE


def _peak(work: Work) -> float:
    """MB on the device above what was there, 0 without one."""
    if device().type != "cuda":
        work()
        return 0.0
    work()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


TABLES = ("step_", "profile_", "graphs_", "attention_")


def report(result: dict[str, Any]) -> str:
    """Markdown."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: dict[str, Any]) -> Iterator[str]:
    yield "# On a GPU"
    for key, value in result.items():
        if not key.startswith((*TABLES, "presets")):
            yield f"\n{key}: {value}"
    for key, rows in result.items():
        if key.startswith(TABLES):
            shown = dict(list(rows.items())[:25])
            columns = list(dict.fromkeys(column for row in shown.values() for column in row))
            yield f"\n## {key}\n"
            yield "| " + " | ".join(["", *columns]) + " |"
            yield "| --- |" + " ---: |" * len(columns)
            for name, row in shown.items():
                cells = [row.get(column, "") for column in columns]
                yield (
                    "| "
                    + " | ".join(
                        [name, *(f"{x:.4g}" if isinstance(x, float | int) else x for x in cells)]
                    )
                    + " |"
                )


if __name__ == "__main__":
    main()
