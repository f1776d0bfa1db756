"""`relpos order`: how much order does a network know?"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, ListConfig

from relpos.analysis.order_figure import draw_curves, draw_gaps
from relpos.commands.length import labels
from relpos.data.pairs import PairSource
from relpos.errors import RelposError
from relpos.files import replacing, write_json
from relpos.runs.config import instantiate
from relpos.runs.order import MEASURES, Dials, Results, measured, suited
from relpos.runs.run import runs_root
from relpos.runs.trained import Trained, trained


def order(cfg: DictConfig) -> str:
    """Writes `order.json` and figures into a folder below `$RELPOS_RUNS/order`, which it returns.

    Raises:
        RelposError: a folder holds no masked language model, or a pair of sentences cannot be read.
    """
    words = cfg["from"]
    folders = [Path(str(folder)) for folder in (words if isinstance(words, ListConfig) else [words])]
    store = Path(str(cfg.store)) if cfg.store else None
    measures = None if cfg.measure is None else tuple(cfg.measure) if isinstance(cfg.measure, ListConfig) else (str(cfg.measure),)
    if measures == ():
        raise RelposError(f"measure=[]: at least one is needed of {', '.join(MEASURES)}")
    dials = Dials(measures, cfg.examples, cfg.form)
    subjects = [trained(folder, store) for folder in folders]
    pairs = instantiate(cfg.pairs)
    sources = [suited(pairs, subject) if "pairs" in (measures or MEASURES) else None for subject in subjects]
    rows = []
    for subject, source, name in zip(subjects, sources, _names(subjects), strict=True):
        results: Results = {"name": name, "folder": subject.name} | measured(subject, dials, source, cfg.accelerator, cfg.threads)
        if cfg.curves:
            shares = subject.snapshots()
            results["snapshots"] = {
                str(share): measured(then, dials, source, cfg.accelerator, cfg.threads) for share, then in shares.items()
            }
        rows.append(results)
        print(f"{name}: {said(results)}", file=sys.stderr)
    place = runs_root() / "order" / _folder(subjects, sources, dials, bool(cfg.curves))
    write_json(place / "order.json", rows[0] if len(rows) == 1 else {"rows": rows})
    _draw(rows, place)
    return str(place)


def with_pairs(words: Sequence[str]) -> list[str]:
    """`pairs=PATH` as Hydra wants it: `pairs=files pairs.path=PATH`."""
    found: list[str] = []
    for word in words:
        key, _, value = word.partition("=")
        is_path = key == "pairs" and ("/" in value or value.endswith((".txt", ".jsonl")))
        found += ["pairs=files", f"pairs.path='{value}'"] if is_path else [word]
    return found


def said(results: Results) -> str:
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


def _names(subjects: list[Trained]) -> list[str]:
    short = labels([subject.run or subject.folder for subject in subjects])
    return short if len(set(short)) == len(short) else [subject.name for subject in subjects]


def _folder(subjects: list[Trained], sources: list[PairSource | None], dials: Dials, snapshots: bool) -> str:
    pairs = [source.identity() if source else None for source in sources]
    content = json.dumps([[str(subject.weights.resolve()) for subject in subjects], pairs, dials.__dict__, snapshots])
    name = subjects[0].name.replace(" at ", "-").replace(" %", "") if len(subjects) == 1 else f"{len(subjects)}-networks"
    return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _draw(rows: list[Results], place: Path) -> None:
    if gaps := {row["name"]: row["shuffle_gap"] for row in rows if "shuffle_gap" in row}:
        intervals = {row["name"]: row["shuffle_gap_intervals"] for row in rows if "shuffle_gap" in row}
        with replacing(place / "shuffle_gap.png") as temporary:
            draw_gaps(gaps, intervals, temporary)
    if any(row.get("snapshots") for row in rows):
        with replacing(place / "snapshots.png") as temporary:
            draw_curves(rows, temporary)
