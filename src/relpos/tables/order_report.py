"""Writes `order.json` and its figures: how much order some networks know, side by side."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.config.compose import names
from relpos.errors import RelposError
from relpos.files import replacing, write_json
from relpos.runs.order import DETAILS, measured, suited
from relpos.runs.order_measures import MEASURES, Dials, Results
from relpos.runs.run import runs_root
from relpos.runs.trained import Trained, trained
from relpos.tables.named_runs import named_networks
from relpos.trust import instantiate

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from relpos.analysis.order_figure import Curve
    from relpos.data.pairs import PairSource

FILE = "order.json"


def write_report(cfg: DictConfig) -> Path:
    """Measures the networks that `network` and `table` name; writes `order.json` and figures.

    They go into a folder below `$RELPOS_RUNS/order`, which is returned.

    Args:
        cfg: a checked configuration of `relpos order`.

    Raises:
        RelposError: nothing is named, a folder holds no masked language model, or a pair of sentences cannot be read.
    """
    folders, table = names(cfg.network) or [], str(cfg.table) if cfg.table else None
    if not folders and table is None:
        raise RelposError("network=FOLDER or table=NAME is expected: which networks?")
    measures = None if cfg.measure is None else tuple(names(cfg.measure) or ())
    if measures == ():
        raise RelposError(f"measure=[]: at least one is needed of {', '.join(MEASURES)}")
    dials = Dials(measures, cfg.examples, cfg.form)
    store = Path(str(cfg.store)) if cfg.store else None
    networks = named_networks(folders, table)
    subjects = [trained(network.path, store) for network in networks]
    pairs = instantiate(cfg.pairs, "pairs")
    sources = [suited(pairs, subject) if "pairs" in (measures or MEASURES) else None for subject in subjects]
    have_own_names = len({network.name for network in networks}) == len(networks)
    rows = []
    for network, subject, source in zip(networks, subjects, sources, strict=True):
        name = network.name if have_own_names else subject.name
        results: Results = {"name": name, "folder": subject.name} | ({"row": network.row} if network.row else {})
        results |= _summary(measured(subject, dials, source, cfg.accelerator, cfg.threads))
        if cfg.curves:
            results["snapshots"] = {
                str(share): _summary(measured(snapshot, dials, source, cfg.accelerator, cfg.threads))
                for share, snapshot in subject.snapshots().items()
            }
        rows.append(results)
        print(f"{name}: {_line(results)}", file=sys.stderr)
    folder = runs_root() / "order" / _folder_name(subjects, sources, dials, bool(cfg.curves))
    write_json(folder / FILE, rows[0] if len(rows) == 1 else {"rows": rows})
    _draw(rows, folder)
    return folder


def _summary(results: Results) -> Results:
    return {key: value for key, value in results.items() if key not in DETAILS}


def _line(results: Results) -> str:
    """The main figures in a line."""
    parts = []
    if gaps := results.get("shuffle_gap"):
        parts.append(f"shuffle gap {gaps['all']:.3f} nats")
    for key, title in (("same_words", "same-word pairs"), ("others", "other pairs")):
        accuracy = results.get("pairs", {}).get(key, {}).get("accuracy")
        if accuracy is not None:
            parts.append(f"{title} {accuracy:.1f}")
    if probes := results.get("probes"):
        parts.append(f"place R² {max(probes['place']):.2f}")
    return ", ".join(parts) or "measured"


def _folder_name(subjects: Sequence[Trained], sources: Sequence[PairSource | None], dials: Dials, snapshots: bool) -> str:
    pairs = [source.identity() if source else None for source in sources]
    content = json.dumps([[str(subject.weights.resolve()) for subject in subjects], pairs, dials.__dict__, snapshots])
    name = subjects[0].name.replace(" at ", "-").replace(" %", "") if len(subjects) == 1 else f"{len(subjects)}-networks"
    return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _draw(rows: Sequence[Results], folder: Path) -> None:
    """Draws the figures; a table's row is one line, the mean over its pre-trainings."""
    lines: dict[str, list[Results]] = {}
    for row in rows:
        lines.setdefault(str(row.get("row", row["name"])), []).append(row)
    measured_gaps = {name: seeds for name, seeds in lines.items() if all("shuffle_gap" in seed for seed in seeds)}
    if measured_gaps:
        from relpos.analysis.order_figure import draw_gaps

        gaps = {name: _mean([seed["shuffle_gap"] for seed in seeds]) for name, seeds in measured_gaps.items()}
        single = {name: seeds[0]["shuffle_gap_intervals"] for name, seeds in measured_gaps.items() if len(seeds) == 1}
        with replacing(folder / "shuffle_gap.png") as temporary:
            draw_gaps(gaps, single, temporary)
    if any(row.get("snapshots") for row in rows):
        from relpos.analysis.order_figure import draw_curves

        with replacing(folder / "snapshots.png") as temporary:
            draw_curves({name: _curve(seeds) for name, seeds in lines.items()}, temporary)


def _mean(gaps: Sequence[dict[str, float]]) -> dict[str, float]:
    return {window: sum(of_seed[window] for of_seed in gaps) / len(gaps) for window in gaps[0]}


def _curve(seeds: Sequence[Results]) -> Curve:
    """Share → (gap over all words, accuracy on same-word pairs): means over the pre-trainings that have it; None where none has."""
    networks = [{int(share): results for share, results in seed.get("snapshots", {}).items()} | {100: seed} for seed in seeds]
    curve: Curve = {}
    for share in sorted({share for of_seed in networks for share in of_seed}):
        points: list[Any] = [of_seed[share] for of_seed in networks if share in of_seed]
        gaps = [point["shuffle_gap"]["all"] for point in points if "shuffle_gap" in point]
        right = [point["pairs"]["same_words"]["accuracy"] for point in points if "pairs" in point]
        right = [accuracy for accuracy in right if accuracy is not None]
        curve[share] = (sum(gaps) / len(gaps) if gaps else None, sum(right) / len(right) if right else None)
    return curve
