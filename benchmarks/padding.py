"""How much of a pre-training step is padding: from the lengths of its examples, without a network.

    python benchmarks/padding.py [data=files data.corpus=FOLDER …]

The text is the generated language and, where overrides of `relpos data` are given, theirs. On a CPU
only attention's scores are computed for padding, in passes as `relpos.data.passes.passes` cuts
them; in recorded passes on a GPU all else is, too, of the few tokens that
`relpos.data.passes.Shapes` adds; of the scores those of tiles of 64 × 64 that hold a real token.
Operations are those of BERT-small, as `relpos.runs.cost` counts them. Writes
benchmarks/results/padding.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

import relpos
from relpos.config.compose import resolved
from relpos.data.passes import MULTIPLE, passes
from relpos.data.steps import Steps
from relpos.data.store import Store
from relpos.model.architecture import Size
from relpos.runs.cost import forward

BATCH, LENGTH, STEPS = 128, 128, 40
MICROBATCH = 16
"""2,048 tokens, which `speed.microbatch=auto` takes on a CPU."""
TILE = 64
"""Queries, and keys, that a forward program on a GPU computes at once."""
COLUMNS = (
    "tokens per example",
    "padded to 128",
    "positions, CPU",
    "scores, CPU",
    "scores, GPU",
    "operations, CPU",
    "operations, GPU",
)


def main() -> None:
    asked = sys.argv[1:]
    lines = [
        " | ".join(["| text", "packing", *COLUMNS, ""]).rstrip(),
        "|---" * (2 + len(COLUMNS)) + "|",
    ]
    for overrides in [["data=toy"], *([asked] if asked else [])]:
        store = Store(relpos.run(relpos.compose("data", overrides)).path)
        for packing in ("pair", "document"):
            lines.append(
                f"| {overrides[0].removeprefix('data=')} | {packing} | {row(store, packing)} |"
            )
    command = f"`python benchmarks/padding.py {' '.join(asked)}`".replace(" `", "`")
    title = f"# Padding\n\n{command}:\nshares of padding, in {STEPS} steps of {BATCH} examples of at most {LENGTH} tokens.\n"
    (Path(__file__).parent / "results" / "padding.md").write_text(
        "\n".join([title, *lines, ""]), encoding="utf-8"
    )
    print("\n".join(lines))


def row(store: Store, packing: str) -> str:
    """The figures of one line."""
    steps = Steps(store.examples("train", packing, LENGTH), 0, BATCH, MICROBATCH, store.vocabulary)
    lengths = [steps.examples.lengths(steps.pairs(index)) for index in range(STEPS)]
    real = sum(int(step.sum()) for step in lengths)
    cpu = [step[part] for step in lengths for part in passes(step, steps.room)]
    gpu = [part for step in lengths for part in steps.shapes.deal(step)]
    held = sum(len(rows) * n if at is None else len(at) for rows, n, at in gpu)
    scores = sum(int(step.square().sum()) for step in lengths)
    tiles = sum(
        in_tiles(step[rows], n) for step in lengths for rows, n, _ in steps.shapes.deal(step)
    )
    padded = 1 - real / positions(cpu), 1 - scores / squares(cpu), 1 - scores / tiles
    size = Size(**resolved(relpos.compose("params"))["size"])
    tokens, score = forward(size, 0, store.vocabulary, 0.15), forward(size, 1) - forward(size, 0)
    needed = tokens * real + score * scores
    on_cpu = 1 - needed / (tokens * real + score * squares(cpu))
    on_gpu = 1 - needed / (tokens * held + score * tiles)
    shares = [1 - real / (STEPS * BATCH * LENGTH), *padded, on_cpu, on_gpu]
    return " | ".join([f"{real / STEPS / BATCH:.0f}", *(f"{share:.3f}" for share in shares)])


def in_tiles(lengths: Tensor, n: int) -> int:
    """Scores of one head that a GPU computes, of rows with n columns."""
    side = min(TILE, 1 << (n - 1).bit_length())
    return int((-(-lengths // side) * side).square().sum())


def width(part: Tensor) -> int:
    """Positions of a row."""
    return -(-int(part.max()) // MULTIPLE) * MULTIPLE


def positions(parts: Iterable[Tensor]) -> int:
    return sum(len(part) * width(part) for part in parts)


def squares(parts: Iterable[Tensor]) -> int:
    """Scores of one head."""
    return sum(len(part) * width(part) ** 2 for part in parts)


if __name__ == "__main__":
    main()
