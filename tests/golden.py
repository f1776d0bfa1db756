"""Losses that must not move: `make golden` writes them, `tests/model/test_golden.py` compares.

A change that moves one alters results; it comes with a new number in the runs' identity.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from relpos.model.build import build
from relpos.model.dropout import seed_dropout
from schemes import SCHEMES, SIZE, VOCABULARY, batch, make

PATH = Path(__file__).parent / "golden" / "schemes.json"
STEPS = 3


def losses(name: str) -> list[float]:
    """The training losses of three SGD steps from seed 0, in float64 so that no machine's rounding shows."""
    scheme = next(scheme for scheme in SCHEMES if scheme.__name__ == name)
    torch.manual_seed(0)
    model = build(SIZE, make(scheme, k=2), VOCABULARY).double().train()
    ids, mask = batch(rows=4, n=12)
    labels = torch.where(torch.arange(12) % 3 == 1, ids, torch.tensor(-100))
    found = []
    for step in range(STEPS):
        seed_dropout(model, step)
        if step == 1:  # away from the start, where most schemes are nearly silent
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter += 0.3 * torch.randn_like(parameter)
        loss = model.loss(ids, labels, mask)
        found.append(round(loss.item(), 10))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
    return found


def main() -> None:
    table = {scheme.__name__: losses(scheme.__name__) for scheme in SCHEMES}
    PATH.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
