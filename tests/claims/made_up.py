"""Scales with scores, and models with weights, that nobody has trained."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from relpos.claims.scales import Scale, Scales, Scores, of_pretrainings
from relpos.claims.verdict import Verdict
from relpos.config.compose import compose
from relpos.tables.columns import GLUE
from relpos.train.network import build_model

SIZE = {"layers": 2, "hidden": 64, "ffn": 256, "max_positions": 16}
TINY = ["size=tiny", "size.layers=2", "size.hidden=16", "size.embedding=8", "size.heads=4", "size.ffn=16", "vocabulary=40"]
ONE_PRETRAINING = "says nothing about other pre-trainings"
JITTER = [-0.4, 0.1, 0.3, -0.2, 0.2]
PAIR = [["new", "old"]]
STEPS: dict[str, Any] = {"contrasts": [["one", "old"], ["five", "old"]], "at_s": [1, 5]}


def scale(rows: dict[str, dict[str, Sequence[float]]], store: str = "toy-0123456789ab", size: int = 1, **meaning: Any) -> Scale:
    """A scale with these scores, row → column → one a pre-training seed."""
    meaning = {"size": SIZE | {"hidden": 64 * size}, "steps": 100, "batch": 8, "length": 128, "pairs": None} | meaning
    made = of_pretrainings(meaning, store)
    for row, columns in rows.items():
        made.scores[row] = {
            name: Scores({(seed, 0): value for seed, value in enumerate(values)}) for name, values in columns.items()
        }
    return made


def of_one_pretraining(made: Scale) -> Scale:
    """The same scale, its scores being those of fine-tunings of one pre-training a row."""
    for scores in (column for row in made.scores.values() for column in row.values()):
        scores.values = {(0, seed): value for (seed, _), value in scores.values.items()}
    return made


def at_chance(made: Scale, *columns: str, rows: Sequence[str] = ()) -> Scale:
    """The same scale, where these rows (all of them) are no better than the constant answer in these columns."""
    for scores in (made.scores[row][name] for row in rows or made.scores for name in columns):
        scores.metric, scores.majority, scores.examples = "accuracy", 99.0, 10_000
    return made


def around(mean: float, order: int = 1) -> list[float]:
    """Five scores; another order for another row, so that pairs differ."""
    return [mean + one for one in JITTER[::order]]


def glue(mean: float, order: int = 1, **others: float) -> dict[str, list[float]]:
    """All nine columns around one mean, but for some."""
    return {name: around(others.get(name, mean), order) for name in GLUE}


def scales(*found: Scale) -> Scales:
    return Scales(sorted(found, key=lambda one: (one.magnitude, one.meaning["steps"])))


def only(found: list[Verdict]) -> Verdict:
    assert len(found) == 1
    return found[0]


def saved(folder: Path, change: Callable[[Any], None], *overrides: str, share: int | None = None) -> Path:
    """The folder of a pre-training whose model, or whose snapshot, was changed by hand."""
    from omegaconf import OmegaConf

    from relpos.train.weights import save_model, save_weights

    cfg = compose("params", [*TINY, *overrides])
    torch.manual_seed(0)
    model = build_model(cfg)
    with torch.no_grad():
        change(model)
    if share is not None:
        (folder / "snapshots").mkdir(parents=True, exist_ok=True)
        save_weights(model, folder / "snapshots" / f"{share}.safetensors")
        return folder
    (folder / "model").mkdir(parents=True)
    nodes = {key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("size", "position", "conv")}
    save_model(folder / "model", model, nodes | {"vocabulary": 40}, SimpleNamespace(save=lambda _: None))
    return folder
