"""Lines of cells as text in columns."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """The first column is aligned to the right, the others to the left; letters of double width count twice.

    >>> print(aligned([["0.5", "cat", "a cat"], ["-0.25", "dog", "a dog"]]))
        0.5  cat  a cat
      -0.25  dog  a dog
    """
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        indent
        + "  ".join(
            " " * (width - cell_len(cell)) + cell if place == 0 else cell + " " * (width - cell_len(cell))
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
