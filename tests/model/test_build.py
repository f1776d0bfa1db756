"""Parameters counted, of real sizes and of devices without memory."""

from pathlib import Path
from typing import Any

import torch
import yaml

from relpos.model.build import count
from relpos.model.position import Composite
from schemes import build

ROOT = Path(__file__).parents[2]


def size(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "conf" / "size" / f"{name}.yaml").read_text(encoding="utf-8"))


def test_parts_add_up():
    with torch.device("meta"):
        parameters = count(build(size("small"), Composite, 30_004))
    assert parameters["position"] == parameters["parts"]["position"] == 13_872
    assert sum(parameters["parts"].values()) == parameters["total"] == 13_428_196


def test_meta_and_cpu_have_the_same_parameters():
    with torch.device("meta"):
        meta = count(build(size("tiny"), Composite, 99))
    assert meta == count(build(size("tiny"), Composite, 99))


def test_albert_has_one_layer_and_twelve_passes():
    """The network of Lan et al.: 11,683,584 parameters with their vocabulary of 30,000 and pooler,
    of which the rest is ours."""
    with torch.device("meta"):
        model = build(size("albert_base"), Composite, 30_000)
    assert len(model.encoder.layers) == 1
    assert model.encoder.position.beta.shape == (12, 12, 17)
    parameters = count(model)["parts"]
    pooler, positions = 768 * 768 + 768, 512 * 128
    encoder = sum(value for name, value in parameters.items() if name not in ("head", "position"))
    assert encoder + positions + pooler == 11_683_584
