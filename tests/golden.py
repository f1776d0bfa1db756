"""Losses that must not move: `make golden` writes them, `tests/model/test_golden.py` compares.

A change that moves one alters results; it comes with a new number in the runs' identity.
"""

import json
import zlib
from pathlib import Path

import torch

from relpos.counter import normal
from relpos.model.dropout import seed_dropout
from schemes import CONVS, POSITIONS, SIZE, VOCABULARY, batch, build, preset

PATH = Path(__file__).parent / "golden" / "schemes.json"
STEPS = 3


def losses(name: str) -> list[float]:
    """The training losses of three SGD steps from seed 0, in float64 so that no machine's rounding
    shows.

    Args:
        name: `position=composite` or `conv=depthwise`; all else is plain.
    """
    settings = {"position": "none", "conv": "none"} | dict([name.split("=")])
    torch.manual_seed(0)
    parts = {group: preset(group, option) for group, option in settings.items()}
    model = build(SIZE, parts["position"], VOCABULARY, parts["conv"]).double().train()
    ids, mask = batch(rows=4, n=12)
    labels = torch.where(torch.arange(12) % 3 == 1, ids, torch.tensor(-100))
    values = []
    for step in range(STEPS):
        seed_dropout(model, step)
        if step == 1:  # away from the start, where most schemes are nearly silent
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    elements = torch.arange(parameter.numel()).view(parameter.shape)
                    parameter += 0.3 * normal(zlib.crc32(name.encode()), elements)
        loss = model.loss(ids, labels, mask)
        values.append(round(loss.item(), 10))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
    return values


def names() -> list[str]:
    return [f"position={name}" for name in POSITIONS] + [f"conv={name}" for name in CONVS]


def main() -> None:
    table = {name: losses(name) for name in names()}
    PATH.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
