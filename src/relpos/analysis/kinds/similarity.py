"""P = E_P E_Pᵀ and the cosines of position embeddings (Wennberg & Henter 2021, Figures 1, 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from relpos import style
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.analysis.toeplitz import diagonal_means, toeplitz_r2
from relpos.model.encoder import Encoder
from relpos.model.surgery import position_table
from relpos.ranges import Count


def products(encoder: Encoder, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """P (n, n) and the cosines (n, n) of the first `length` positions, all of them by default.

    Raises:
        RelposError: the network has no table of position embeddings.
    """
    rows = position_table(encoder).detach().double().cpu().numpy()[:length]
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    # A row of zeros has no direction; its cosines are then 0.
    unit = rows / np.where(sizes > 0, sizes, 1.0)
    return rows @ rows.T, unit @ unit.T


@dataclass(frozen=True)
class PositionSimilarity:
    """Maps of P and of the cosines, some of their rows, and the mean of each diagonal.

    Args:
        length: positions; None: all that the network has.
        rows: how many rows are drawn as curves.
    """

    length: Count | None = None
    rows: Count = 3

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            matrices = dict(zip(("P", "cosine"), products(subject.encoder, self.length), strict=True))
            figure, axes = style.grid(4, 2, 3.6, 3.0)
            for column, (name, values) in enumerate(matrices.items()):
                image = style.matrix(axes[column], values, centred=name == "P")
                figure.colorbar(image, ax=axes[column], shrink=0.8)
                axes[column].set_title(f"{name}, R² {toeplitz_r2(values):.3f}", fontsize=9)
                n = len(values)
                for line, row in enumerate(np.linspace(0, n - 1, min(self.rows + 2, n)).astype(int)[1:-1]):
                    axes[2 + column].plot(range(n), values[row], label=f"i = {row}", **style.look(line, 0.5))
                axes[2 + column].set_xlabel("position j", fontsize=8)
                axes[2 + column].legend(fontsize=6, frameon=False)
            figure.suptitle(f"{subject.name}: position embeddings, products of rows", fontsize=10)
            # By offset: a Toeplitz matrix is this curve and nothing else.
            means = {name: diagonal_means(values) for name, values in matrices.items()}
            table = [
                {"offset": offset, **{name: float(mean[place]) for name, mean in means.items()}}
                for place, offset in enumerate(range(1 - n, n))
            ]
            yield Drawing(f"position_similarity-{subject.name}", table, figure)
