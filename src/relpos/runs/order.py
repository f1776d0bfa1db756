"""What a network knows of the order of its tokens; measured once for each network and kept in the folder of its run.

A pre-training's folder has `order/MEASURE-HASH.json` for each measure, network (the final one and each snapshot) and choice of
dials: `share`, the per cent of its training steps that the network had done (100: the final one); `meaning`, everything else that
the figures depend on; and `results`, the figures. `kept` reads these files.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from relpos.data.pairs import AutoPairs, PairSource
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.files import write_json
from relpos.runs.order_measures import FUNCTIONS, MEASURES, TEXTS, WINDOW, Dials, NothingToMeasure, Results, named_pairs
from relpos.runs.trained import Trained

if TYPE_CHECKING:
    from relpos.model.heads import MaskedLM

VERSION = 2
"""Raised when a change of code alters these figures: kept ones are then measured again."""
FOLDER = "order"
DETAILS = ("by_example", "answers")
"""Results that intervals over several networks need: of each held-out example its predicted tokens and the nats by which shuffling
all words raises their loss; of each pair whether it is right, by paradigm."""


def measured(
    subject: Trained, dials: Dials, source: PairSource | None, accelerator: str = "cpu", threads: int | None = None
) -> Results:
    """The figures of a network, each read from its run's folder where it was measured before.

    Args:
        subject: the network.
        dials: what is measured.
        source: of the pairs; None where there are none.
        accelerator: auto, cpu or gpu.
        threads: CPU threads; None: torch's own number.

    Returns:
        For the measures asked for: `shuffle_gap` {"2": nats, …, "all": nats}, `shuffle_gap_intervals`, `heldout_loss`; `pairs`
        {"same_words", "others", "paradigms"}; `probes`; `attention`; and the `DETAILS`. See `docs/measuring.md`.

    Raises:
        RelposError: there is no held-out text for a measure that needs some, or no pairs, or no GPU.
    """
    figures: Results = {}
    loaded: list[tuple[MaskedLM, Tokenizer, Words]] = []

    def network() -> tuple[MaskedLM, Tokenizer, Words]:
        if not loaded:
            from relpos.train.module import set_threads

            set_threads(threads)
            tokenizer = load_tokenizer(subject.folder)
            loaded.append((subject.load().to(_device(accelerator)), tokenizer, Words(tokenizer)))
        return loaded[0]

    for measure in dials.measures or MEASURES:
        try:
            meaning = {"measure": measure, "version": VERSION} | _meaning(measure, dials, source)
            file = _file(subject, meaning)
            before = _read(file) if file and file.is_file() else None
            if before is not None:
                figures |= before.results
                continue
            results = FUNCTIONS[measure](subject, dials, source, *network())
        except NothingToMeasure as error:
            if dials.measures:
                raise
            print(f"relpos: without {measure}: {error}", file=sys.stderr)
            continue
        if file:
            write_json(file, {"meaning": meaning, "share": subject.share, "results": results})
        figures |= results
    if not figures:
        raise RelposError(f"{subject.name}: there is nothing to measure it on: neither held-out text nor pairs")
    return figures


@dataclass(frozen=True)
class Kept:
    """Figures that were measured before.

    Args:
        share: per cent of its training steps that the network had done; 100: the final one.
        meaning: everything else that they depend on: measure, version, examples or pairs.
        results: as `measured` returns them.
    """

    share: int
    meaning: dict[str, Any]
    results: Results


def kept(run: Path, measure: str) -> list[Kept]:
    """A measure's figures in a pre-training's folder, sorted by share; a damaged file is left out.

    Args:
        run: its folder.
        measure: one of `MEASURES`.
    """
    entries = [_read(path) for path in sorted((run / FOLDER).glob(f"{measure}-*.json"))]
    return sorted((entry for entry in entries if entry and entry.meaning.get("version") == VERSION), key=lambda entry: entry.share)


def _read(path: Path) -> Kept | None:
    """What a file keeps; None if it is damaged, which is said on stderr."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Kept(int(content["share"]), dict(content["meaning"]), dict(content["results"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        print(f"relpos: damaged results {path}: the next `relpos order` measures them anew", file=sys.stderr)
        return None


def snapshots(subject: Trained) -> dict[int, Trained]:
    """Per cent of the steps → the network as it was then, if its weights are here or figures of it, as after `relpos merge`."""
    if subject.run is None:
        return {}
    with_figures = {entry.share for measure in MEASURES for entry in kept(subject.run, measure)} - {subject.share}
    return {share: subject.at(share) for share in sorted({*subject.snapshots(), *with_figures})}


def suited(source: PairSource | AutoPairs, subject: Trained) -> PairSource | None:
    """The pairs that `pairs=` names; for `pairs=auto` those that suit the network, or None."""
    return source.suited(_is_of_toy(subject.store)) if isinstance(source, AutoPairs) else source


def is_toy(data: Mapping[str, Any]) -> bool:
    """Whether the node `data` of a configuration is the embedded language."""
    return str(data.get("_target_", "")).endswith(".Toy")


def _is_of_toy(store: Path | None) -> bool:
    if store is None or not (store / "config.yaml").is_file():
        return False
    content: Any = OmegaConf.to_container(OmegaConf.load(store / "config.yaml"))
    return is_toy(content.get("data", {}))


def is_measured(subject: Trained, dials: Dials, source: PairSource | None, measure: str) -> bool:
    """Whether there is nothing left to measure: the figures are in the run's folder, or there are no pairs for the network."""
    try:
        file = _file(subject, {"measure": measure, "version": VERSION} | _meaning(measure, dials, source))
    except NothingToMeasure:
        return True
    return file is not None and file.is_file()


def _device(accelerator: str) -> str:
    """`cpu` or `cuda`, for auto, cpu or gpu.

    Raises:
        RelposError: there is no GPU here.
    """
    if accelerator == "cpu":
        return "cpu"
    import torch

    if accelerator == "gpu" and not torch.cuda.is_available():
        raise RelposError("accelerator=gpu: there is no GPU here")
    return "cuda" if torch.cuda.is_available() else "cpu"


def _meaning(measure: str, dials: Dials, source: PairSource | None) -> dict[str, Any]:
    """Everything but the network that the figures of a measure depend on."""
    if measure == "shuffle":
        return {"examples": dials.examples}
    if measure == "pairs":
        return {"form": dials.form, "pairs": named_pairs(source).identity()}
    return {"texts": TEXTS, "window": WINDOW}


def _file(subject: Trained, meaning: dict[str, Any]) -> Path | None:
    """Where the figures are kept; None for a network without a run."""
    if subject.run is None:
        return None
    content = json.dumps([meaning, subject.weights.stem], sort_keys=True)
    return subject.run / FOLDER / f"{meaning['measure']}-{hashlib.sha256(content.encode()).hexdigest()[:8]}.json"
