"""Scales with scores, and models with weights, that nobody has trained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import torch
import yaml

from relpos.claims.verdict import Judgement, Verdict
from relpos.config.compose import compose, resolved
from relpos.files import write_json, write_text
from relpos.model.architecture import Architecture
from relpos.model.build import build
from relpos.ranges import parsed
from relpos.results.scale import Scale, Scales, pretraining_scale
from relpos.results.values import GLUE, Seed, Value

SIZE = {"layers": 2, "hidden": 64, "ffn": 256, "max_positions": 16}
TINY = [
    "size=tiny",
    "size.layers=2",
    "size.hidden=16",
    "size.embedding=8",
    "size.heads=4",
    "size.ffn=16",
    "vocabulary=40",
]
ONE_PRETRAINING = "says nothing about other pre-trainings"
JITTER = [-0.4, 0.1, 0.3, -0.2, 0.2]


def scored(values: Mapping[Seed, float], column: str, **fields: Any) -> list[Value]:
    """Scores by their seeds (pre-training, fine-tuning)."""
    return [
        Value(Path(f"{p}-{s}"), "finetune", column, value, pretrain_seed=p, seed=s, **fields)
        for (p, s), value in values.items()
    ]


def by_seeds(values: Iterable[Value]) -> dict[Seed, float]:
    return {value.seeds: value.value for value in values}


def scale(
    rows: dict[str, dict[str, Sequence[float]]],
    store: str = "toy-0123456789ab",
    size: int = 1,
    **meaning: Any,
) -> Scale:
    """A scale with these scores, row → column → a score per pre-training seed."""
    meaning = {
        "size": SIZE | {"hidden": 64 * size},
        "steps": 100,
        "batch": 8,
        "length": 128,
        "pairs": None,
    } | meaning
    result = pretraining_scale(meaning, store)
    for row, columns in rows.items():
        result.values[row] = {
            name: scored({(seed, 0): value for seed, value in enumerate(values)}, name)
            for name, values in columns.items()
        }
    return result


def changed(
    scale: Scale, change: Callable[[Value], Value], *columns: str, rows: Sequence[str] = ()
) -> Scale:
    """The same scale with other values in these columns (all of them) of these rows (all of
    them)."""
    for row in rows or scale.values:
        for name in columns or scale.values[row]:
            scale.values[row][name] = [change(value) for value in scale.values[row][name]]
    return scale


def of_one_pretraining(scale: Scale) -> Scale:
    """The same scale, its scores being those of fine-tunings of one pre-training a row."""
    return changed(
        scale, lambda value: replace(value, pretrain_seed=0, seed=value.pretrain_seed or 0)
    )


def at_chance(scale: Scale, *columns: str, rows: Sequence[str] = ()) -> Scale:
    """The same scale, where these rows (all of them) are no better than the constant answer in
    these columns."""
    return changed(
        scale,
        lambda value: replace(value, metric="accuracy", majority=99.0, examples=10_000),
        *columns,
        rows=rows,
    )


def around(mean: float, order: int = 1, spread: float = 1.0) -> list[float]:
    """Five scores; another order for another row, so that pairs differ."""
    return [mean + spread * shift for shift in JITTER[::order]]


def glue(mean: float, order: int = 1, **others: float) -> dict[str, list[float]]:
    """All nine columns around one mean, but for `others`."""
    return {name: around(others.get(name, mean), order) for name in GLUE}


def scales(*scores: Scale) -> Scales:
    return Scales(sorted(scores, key=lambda scale: (scale.magnitude, scale.meaning["steps"])))


def only(verdicts: list[Verdict]) -> Verdict:
    [verdict] = verdicts
    return verdict


def judged(test: Judgement, scale: Scale) -> Verdict:
    return only(test.verdicts(scales(scale)))


def trained(scale: Scale, row: str, *folders: Path, store: Path = Path("gone")) -> Scale:
    """The scale with these folders as the row's finished pre-trainings, of which nothing was
    measured yet."""
    for folder in folders:
        record = {
            "stage": "pretrain",
            "identity": uuid4().hex[:12],
            "state": "finished",
            "meaning": scale.meaning,
            "inputs": {"store": str(store)},
        }
        write_json(folder / "record.json", record)
        config = {
            "packing": "pair",
            "length": scale.meaning["length"],
            "precision": "fp32",
            "seed": 0,
        }
        write_text(folder / "config.yaml", yaml.safe_dump(config))
    scale.folders[row] = dict(enumerate(folders))
    return scale


def saved(
    folder: Path, change: Callable[[Any], None], *overrides: str, share: int | None = None
) -> Path:
    """The folder of a pre-training whose model, or whose snapshot, was changed by hand."""
    from relpos.train.weights import save_model, save_weights

    cfg = compose("params", [*TINY, *overrides])
    torch.manual_seed(0)
    model = build(parsed(Architecture, resolved(cfg)))
    with torch.no_grad():
        change(model)
    if share is not None:
        (folder / "snapshots").mkdir(parents=True, exist_ok=True)
        save_weights(model, folder / f"snapshots/{share}.safetensors")
        return folder
    (folder / "model").mkdir(parents=True)
    save_model(folder / "model", model, SimpleNamespace(save=lambda _: None))
    return folder
