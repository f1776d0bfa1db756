"""Reads all finished runs below `$RELPOS_RUNS`, the smallest scale first; of equally large ones, that with a first stage.

Runs are recognised by their configuration, not by the table that made them: the row `composite` is every run whose `position` and
`conv` are those that `position=composite` gives. If a row was trained at several `position_lr` and `conv_lr`, those with most seeds
count (the chosen ones are trained with more seeds than those they were chosen from); of equally many, those with a rate of the
convolution's own, then the lowest. Runs of older code (another version of their stage) are left out, and counted; so are pilots,
with which rates were chosen: a rate is the best on the seed that chose it in part by chance.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from relpos.claims.checkpoints import published_checkpoints, tuned_checkpoints
from relpos.claims.scales import LOSS, ORDER, Plain, Scale, Scales, Scores, Tuned, of_pretrainings
from relpos.measures.kept import kept
from relpos.runs.run import runs_root
from relpos.runs.shelf import END, common, finished, is_current, protocol
from relpos.tables.estimate import scheme
from relpos.tables.row import PartRates, precedence, rates_of, slowest

Rates = tuple[PartRates, float | None]
"""`recipe.position_lr` and `recipe.conv_lr`."""
NEEDED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "pretrain": {
        **dict.fromkeys(("stage", "identity"), str),
        **dict.fromkeys(("meaning.size.layers", "meaning.size.hidden", "meaning.size.ffn"), int),
        **dict.fromkeys(("meaning.steps", "meaning.batch", "meaning.length", "meaning.seed"), int),
        **dict.fromkeys(("meaning.position", "meaning.conv"), (dict, type(None))),
        "inputs.store": str,
        "metrics.heldout_loss": (int, float),
    },
    "finetune": {
        **dict.fromkeys(("stage", "identity"), str),
        "meaning.seed": int,
        "meaning.task.metric": str,
        "inputs.start": str,
        "metrics.columns": dict,
    },
}
"""Stage → the keys that the record of a finished run must have, with their types."""


def read(rows: Mapping[str, list[str]], checkpoints: Iterable[str] = (), pilot_seeds: Collection[int] = ()) -> Scales:
    """Reads the records, with a progress bar where there are many; one that is damaged is named on stderr and left out.

    Args:
        rows: row → the overrides that make it.
        checkpoints: published networks, by folder or id.
        pilot_seeds: pre-training seeds of pilots, see `relpos.claims.claim.pilot_seeds`.
    """
    pretrainings = _finished("pretrain")
    # Without pre-trainings there is nothing to recognise, and composing the schemes of all rows takes time.
    names = {scheme(overrides): name for name, overrides in rows.items()} if pretrainings else {}
    scales: dict[str, Scale] = {}
    variants: dict[tuple[str, str], dict[Rates, dict[Path, Plain]]] = {}  # scale and row → rates → pre-trainings
    older = pilots = 0
    for folder, record in pretrainings.items():
        if not is_current(record):
            older += 1
            continue
        # At every scale: a pilot is often shorter or smaller than what it chose a rate for, and alone at its scale.
        if record["meaning"]["seed"] in pilot_seeds:
            pilots += 1
            continue
        row = names.get(json.dumps({key: record["meaning"][key] for key in ("position", "conv")}, sort_keys=True))
        # A loss of answers is no loss of text.
        if row is None or record["meaning"].get("recipe", {}).get("masking") == "answer":
            continue
        shared, rates = common(record["meaning"]), rates_of(record["meaning"].get("recipe") or {})
        store = Path(record["inputs"]["store"]).name
        key = json.dumps([shared, store], sort_keys=True)
        scales.setdefault(key, of_pretrainings(shared, store))
        variants.setdefault((key, row), {}).setdefault(rates, {})[folder] = record
    places: dict[str, tuple[Scale, str, int]] = {}  # name of a pre-training's folder → its scale, row and seed
    for (key, row), by_rates in variants.items():
        # Never the rates with the best scores: choosing by the result would favour rows that were tuned longer.
        rates, chosen = max(by_rates.items(), key=lambda item: (len(item[1]), precedence(*item[0])))
        scale = scales[key]
        scale.slowest[row] = slowest(*rates)
        losses = scale.scores.setdefault(row, {}).setdefault(LOSS, Scores())
        for folder, record in chosen.items():
            seed = record["meaning"]["seed"]
            scale.folders.setdefault(row, {})[seed] = folder
            scale.seconds += record.get("seconds", 0.0)
            # Minus: in every column of a scale, more is better.
            losses.values[seed, 0] = -float(record["metrics"]["heldout_loss"])
            places[folder.name] = (scale, row, seed)
    tunings = _finished("finetune")
    _read_scores({folder: record for folder, record in tunings.items() if is_current(record)}, places)
    for scale in scales.values():
        _read_order(scale)
    known = sorted(scales.values(), key=lambda scale: (scale.magnitude, scale.meaning["steps"], "first" not in scale.meaning))
    return Scales(known, older, pilots, tuned_checkpoints(tunings), published_checkpoints(checkpoints))


def _read_scores(tunings: Mapping[Path, Plain], places: Mapping[str, tuple[Scale, str, int]]) -> None:
    """Adds to each scale the scores of its fine-tunings, which may have started from other fine-tunings."""
    by_name = {folder.name: record for folder, record in tunings.items()}
    of_scales: dict[int, tuple[Scale, list[Tuned]]] = {}
    # By the folders' names: after `relpos merge` the paths in records are those of another machine.
    for folder, record in tunings.items():
        chain = [record]
        # At most five: damaged records may name each other in a circle.
        while (start := Path(chain[-1]["inputs"]["start"]).name) in by_name and len(chain) < 5:
            chain.append(by_name[start])
        if start in places:
            scale, row, seed = places[start]
            tuned = Tuned(row, (seed, record["meaning"]["seed"]), folder, record, protocol(*(run["meaning"] for run in chain)))
            of_scales.setdefault(id(scale), (scale, []))[1].append(tuned)
    for scale, of_scale in of_scales.values():
        scale.add(of_scale)


def _read_order(scale: Scale) -> None:
    """Reads the shuffle gaps that `relpos order` kept, of the number of examples with which most pre-trainings were measured; of
    two such numbers, the larger."""
    gaps: dict[str, dict[tuple[str, int], float]] = {}  # meaning of a measurement, as JSON → row and seed → nats
    for row, folders in scale.folders.items():
        for seed, folder in folders.items():
            for of_end in (each for each in kept(folder, "shuffle") if each.share == END):
                if isinstance(gap := _value(of_end.results, "shuffle_gap.all"), int | float):
                    gaps.setdefault(json.dumps(of_end.meaning, sort_keys=True), {})[row, seed] = float(gap)
    most = max(gaps.items(), key=lambda item: (len(item[1]), json.loads(item[0]).get("examples", 0)), default=("", {}))
    for (row, seed), gap in most[1].items():
        # One number of examples for all rows: gaps over other examples differ by the examples alone.
        scale.scores[row].setdefault(ORDER, Scores()).values[seed, 0] = gap


def _finished(stage: str) -> dict[Path, Plain]:
    """Folder → record of the finished runs of a stage; those whose record lacks what is needed are named on stderr and left out."""
    found: dict[Path, Plain] = {}
    for folder, record in finished(stage, runs_root()):
        if lacking := [key for key, kind in NEEDED[stage].items() if not isinstance(_value(record, key), kind)]:
            path = folder / "record.json"
            print(f"relpos: damaged record {path}: no {lacking[0]}: delete the folder to start anew", file=sys.stderr)
        else:
            found[folder] = record
    return found


def _value(record: Plain, key: str) -> object:
    """The value of a dotted key; `...`, whose type no key asks for, where there is none."""
    value: object = record
    for part in key.split("."):
        value = value.get(part, ...) if isinstance(value, dict) else ...
    return value
