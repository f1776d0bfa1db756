"""Pre-training steps and attention alone on CUDA: ours beside Hugging Face, FlexAttention and SDPA, interleaved in one run.

    python benchmarks/gpu.py [--repeats 10] [--sizes small base] [--only NAME …] [--out FOLDER] [--resume] [--rehearse]

A step is 256 × 128 random tokens, 15 % predicted: forward, backward, clipping and fused AdamW in bf16. Ours takes the path of a
training run (`relpos.train.recorded`, CUDA graphs), with every option of `position` and `conv`. Hugging Face's BERT runs eager,
with SDPA and compiled. Attention alone has the terms of `composite` (β and a, k = 8), forward and backward, against compiled
FlexAttention with the same terms and SDPA with the terms as one tensor, all without dropout, and ours with dropout besides; and,
where flashdeberta is installed, DeBERTa's two terms, of every offset, against it. Steps of 32 rows of at most 256 tokens run with
and without graphs, which save launches. A large matrix product runs in every rotation as the ceiling; times are medians.

Writes gpu.json and gpu.md into FOLDER (benchmarks/results) after each part. `--resume` keeps what such a file there already has of
the same machine and settings. `--rehearse` runs everything once at toy sizes on a CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import VOCABULARY, network
from _presets import presets
from _report import RESULTS, machine

from relpos.config.conf import conf_dir
from relpos.data.steps import UnmaskedStep
from relpos.files import write_text
from relpos.model.dropout import Draw
from relpos.model.kernels import eager, name_of, select
from relpos.model.kernels import triton as fused_triton
from relpos.model.position import Terms
from relpos.train.recorded import RecordedStep
from relpos.train.replay import CudaGraphs, PlainCalls

Work = Callable[[], Any]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
K = 8


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--sizes", nargs="+", default=["small", "base"])
    parser.add_argument("--rows", type=int, default=256, help="sequences of a step")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these presets, such as position=tisa")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--resume", action="store_true", help="measure only what FOLDER/gpu.json does not have")
    parser.add_argument("--rehearse", action="store_true", help="everything once at toy sizes, on a CPU")
    asked = parser.parse_args(arguments)
    if DEVICE.type != "cuda" and not asked.rehearse:
        raise SystemExit("benchmarks/gpu.py needs a CUDA device and there is none; make bench measures the CPU")
    names = asked.only or presets()
    length = 16 if asked.rehearse else 128
    settings: dict[str, Any] = {
        "machine": machine() | {"gpu": _gpu()},
        "repeats": asked.repeats,
        "rows": asked.rows,
        "length": length,
    }
    result = settings | (_kept(asked.out, settings) if asked.resume else {})
    keep = partial(_write, asked.out, result)
    for size in asked.sizes:
        steps(size, asked.rows, length, names, asked.repeats, result.setdefault(f"step_{size}", {}), keep)
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    for n in [16] if asked.rehearse else [64, 128, 256]:
        parts[f"graphs_{n}"] = partial(graphs, asked.sizes[0], min(asked.rows, 32), n, asked.repeats)
    for n in [16] if asked.rehearse else [128, 256, 512, 1024, 2048]:
        parts[f"attention_{n}"] = partial(attention, n, max(1, asked.rows * length // n), asked.repeats)
    for name, part in parts.items():
        if name not in result:
            result[name] = part()
            _free()
            keep()
    print(report(result))


def _kept(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What the file there has, where it is of the same machine and settings."""
    path = folder / "gpu.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if all(found.get(key) == value for key, value in settings.items()) else {}


def _write(folder: Path, result: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "gpu.json", json.dumps(result, indent=1) + "\n")
    write_text(folder / "gpu.md", report(result))


def steps(
    size: str, rows: int, n: int, names: Sequence[str], repeats: int, found: dict[str, Any], keep: Callable[[], None]
) -> None:
    """Adds contestants to `found`: milliseconds, tokens a second, over none, TFLOP/s, share of the ceiling. Five take turns with
    `none`; `keep` is called after each five."""
    sizes = yaml.safe_load((conf_dir() / "size" / f"{size}.yaml").read_text(encoding="utf-8"))
    missing = [name for name in names if f"ours {name}" not in found]
    groups = [missing[at : at + 5] for at in range(0, len(missing), 5)]
    for group in groups if "ours none" in found else [[], *groups]:
        runs: dict[str, Work] = {"ours none": ours(size, "none", rows, n), "ceiling": ceiling()}
        if not group:
            runs |= {f"Hugging Face {kind}": hugging_face(sizes, kind, rows, n) for kind in PEERS}
        runs |= {f"ours {name}": ours(size, name, rows, n) for name in group}
        times = race(runs, repeats)
        per_flop = statistics.median(times["ceiling"]) / (2 * SIDE**3)
        for name, seconds in times.items():
            middle = statistics.median(seconds)
            if name == "ceiling":
                found.setdefault(name, {"milliseconds": 1e3 * middle, "teraflops_per_second": 1e-12 / per_flop})
            elif name != "ours none" or not group:
                found[name] = {
                    "milliseconds": 1e3 * middle,
                    "tokens_per_second": rows * n / middle,
                    "over_none": statistics.median(a / b for a, b in zip(seconds, times["ours none"], strict=True)),
                }
                if name.startswith("ours"):
                    work = flops(sizes, rows, n)
                    found[name] |= {"teraflops_per_second": 1e-12 * work / middle, "share_of_ceiling": work * per_flop / middle}
        del runs
        _free()
        keep()


def graphs(size: str, rows: int, n: int, repeats: int) -> dict[str, Any]:
    """{contestant: milliseconds} of steps of a few short rows, whose launches take as long as what they launch."""
    recorders = {"": None, ", no graphs": PlainCalls}
    runs = {f"{p}{said}": ours(size, p, rows, n, kind) for p in ("none", "position=composite") for said, kind in recorders.items()}
    return {name: {"milliseconds": 1e3 * statistics.median(seconds)} for name, seconds in race(runs, repeats).items()}


def ours(size: str, overrides: str, rows: int, n: int, plain: type[PlainCalls] | None = None) -> Work:
    """One update as a training run on a GPU makes it; with `plain` its passes are not recorded."""
    torch.manual_seed(0)
    model = network(*overrides.split(), f"size={size}", f"vocabulary={VOCABULARY}").to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    recorder = CudaGraphs if DEVICE.type == "cuda" and model.encoder.position.same_each_step else PlainCalls
    step = RecordedStep(model, 0, "bf16", (plain or recorder)())
    ids = _tokens(rows, n)
    lengths = torch.full((rows,), n, device=DEVICE)
    passes = [{"input_ids": ids, "lengths": lengths, "keys": torch.arange(rows, device=DEVICE)}]
    numbers = iter(range(1 << 30))

    def once() -> Tensor:
        number = next(numbers)
        model.encoder.position.begin_step(number)
        loss = step(UnmaskedStep(number, passes, rows * n))["loss"]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step.zero_gradients()
        return loss

    return once


PEERS = ("eager", "sdpa", "compiled")


def hugging_face(size: dict[str, Any], kind: str, rows: int, n: int) -> Work:
    """`BertForMaskedLM` of the same sizes, whose embedding is as wide as its layers."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=size["hidden"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
        intermediate_size=size["ffn"], max_position_embeddings=max(n, size["max_positions"]),
        attn_implementation="eager" if kind == "eager" else "sdpa",
    )  # fmt: skip
    model: Any = BertForMaskedLM(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    called = torch.compile(model) if kind == "compiled" and DEVICE.type == "cuda" else model
    ids = _tokens(rows, n)
    labels = ids.masked_fill(torch.rand(rows, n, device=DEVICE) > 0.15, -100)

    def once() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16):
            called(input_ids=ids, labels=labels).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return once


def attention(n: int, rows: int, repeats: int) -> dict[str, Any]:
    """{kind: milliseconds, megabytes above the inputs} of 4 heads of 64, forward and backward to q, k, v, β and a."""
    ways: dict[str, Callable[..., Tensor]] = {
        "triton": _triton, "triton, dropout": partial(_triton, rate=0.1), "eager": _eager, "SDPA, terms as a tensor": _sdpa,
        "FlexAttention, compiled": _flex(),
    }  # fmt: skip
    runs: dict[str, Work] = {name: attention_work(way, rows, n) for name, way in ways.items()}
    if n <= 512:  # beyond, ours would hold both terms of every offset for every token: gigabytes
        tables = [(1, 4, 2 * n, 64)] * 2
        runs["DeBERTa's terms, triton"] = attention_work(_deberta, rows, n, tables)
        if (flash := _flash_deberta()) is not None:
            runs["DeBERTa's terms, FlashDeBERTa"] = attention_work(flash, rows, n, tables)
    memory = {}
    for name in list(runs):
        try:
            memory[name] = _peak(runs[name])
        except Exception as error:  # of others' code, or too little memory: the rest goes on
            print(f"{name}, {n} tokens: {type(error).__name__}: {str(error).strip()[:200]}", file=sys.stderr)
            del runs[name]
    times = race(runs, repeats)
    return {name: {"milliseconds": 1e3 * statistics.median(times[name]), "megabytes": memory[name]} for name in runs}


def attention_work(way: Callable[..., Tensor], rows: int, n: int, more: Sequence[tuple[int, ...]] | None = None) -> Work:
    """Of q, k and v, and of what has the shapes `more`: by default β (h, 2n−1) and a (b, h, n, 2k+1)."""
    torch.manual_seed(0)
    heads, width = 4, 64
    shapes: list[tuple[int, ...]] = [(rows, heads, n, width)] * 3
    shapes += more or [(heads, 2 * n - 1), (rows, heads, n, 2 * K + 1)]
    x = [torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for shape in shapes]
    upstream = torch.randn(shapes[0], device=DEVICE, dtype=torch.bfloat16)

    def once() -> tuple[Tensor, ...]:
        return torch.autograd.grad(way(*x), x, upstream)

    return once


def _triton(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor, rate: float = 0.0) -> Tensor:
    return fused_triton.attention(q / 8, k, v, Terms(offset=beta, query=a), None, Draw(rate, 1))


def _eager(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    return eager.attention(q / 8, k, v, Terms(offset=beta, query=a), None, (0.0, 0))


def _sdpa(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Tensor:
    bias = eager.scores(None, None, Terms(offset=beta, query=a), v)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def _deberta(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, queries: Tensor) -> Tensor:
    """q·r^k and k·r^q, where r (1, h, 2n, d) has a row for each offset; the first is that of an offset that there is not."""
    a, b = (x / 8 @ table[:, :, 1:].mT for x, table in ((q, keys), (k, queries)))
    return fused_triton.attention(q / 8, k, v, Terms(query=a, key=b), None, Draw(0.0, 1))


def _flash_deberta() -> Callable[..., Tensor] | None:
    """The same by flashdeberta, on CUDA, where it is installed."""
    try:
        from flashdeberta.ops.flash_attention import flash_attention_with_disentangled
    except ImportError:
        return None
    if DEVICE.type != "cuda":
        return None

    def way(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, queries: Tensor) -> Tensor:
        y: Tensor = flash_attention_with_disentangled(
            q, k, v, None, keys, queries, sm_scale=1 / 8, max_relative_distance=q.shape[2]
        )
        return y

    return way


def _flex() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention) if DEVICE.type == "cuda" else flex_attention

    def way(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, a: Tensor) -> Tensor:
        n = q.shape[2]

        def with_terms(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + beta[h, j - i + n - 1] + a[b, h, i, (j - i).clamp(-K, K) + K]

        if DEVICE.type != "cuda":  # where it has no backward pass
            with torch.no_grad():
                compiled(*(x.detach() for x in (q, k, v)), score_mod=with_terms)
            return _eager(q, k, v, beta, a)
        y: Tensor = compiled(q, k, v, score_mod=with_terms)
        return y

    return way


SIDE = 8192 if DEVICE.type == "cuda" else 128


def ceiling() -> Work:
    """A product of two square matrices in bfloat16."""
    x = torch.randn(SIDE, SIDE, device=DEVICE, dtype=torch.bfloat16)
    return lambda: x @ x


def flops(size: dict[str, Any], rows: int, n: int) -> float:
    """Of one of our steps: forward × 3, matrix products only, the head at the predicted tokens."""
    d, e, ffn, layers = size["hidden"], size["embedding"], size["ffn"], size["layers"]
    tokens = rows * n
    encoder = layers * (tokens * (4 * d * d + 2 * d * ffn) + 2 * tokens * n * d)
    return 6.0 * (encoder + (tokens * e * d if e != d else 0) + 0.15 * tokens * (d * e + e * VOCABULARY))


def race(runs: dict[str, Work], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, one of each a repeat, every repeat starting elsewhere; three rounds before do not count."""
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(-3, repeats):
        start = repeat % len(names)
        for name in names[start:] + names[:start]:
            seconds = _seconds(runs[name])
            if repeat >= 0:
                times[name].append(seconds)
    return times


def _seconds(work: Work) -> float:
    if DEVICE.type != "cuda":
        before = time.perf_counter()
        work()
        return time.perf_counter() - before
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _peak(work: Work) -> float:
    """MB on the device above what was there, 0 without one."""
    if DEVICE.type != "cuda":
        work()
        return 0.0
    work()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _tokens(rows: int, n: int) -> Tensor:
    return torch.randint(5, VOCABULARY, (rows, n), generator=torch.Generator().manual_seed(0)).to(DEVICE)


def _gpu() -> str:
    return torch.cuda.get_device_name() if DEVICE.type == "cuda" else "none"


def _free() -> None:
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()


def report(result: dict[str, Any]) -> str:
    """Markdown."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: dict[str, Any]) -> Iterator[str]:
    yield "# On a GPU"
    for key, value in result.items():
        if not key.startswith(("step_", "graphs_", "attention_")):
            yield f"\n{key}: {value}"
    kernel = name_of(select("auto", Terms(), torch.zeros(1, 1, 16, 64, device=DEVICE, dtype=torch.bfloat16), True))
    yield f"\nattention kernel of `auto`: {kernel}"
    for key, rows in result.items():
        if key.startswith(("step_", "graphs_", "attention_")):
            columns = list(dict.fromkeys(column for row in rows.values() for column in row))
            yield f"\n## {key}\n"
            yield "| " + " | ".join(["", *columns]) + " |"
            yield "| --- |" + " ---: |" * len(columns)
            for name, row in rows.items():
                yield "| " + " | ".join([name, *(f"{row[column]:.4g}" if column in row else "" for column in columns)]) + " |"


if __name__ == "__main__":
    main()
