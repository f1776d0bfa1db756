"""The measures of how much a network knows of the order of its tokens: each takes a network and gives its figures.

torch is loaded where something is measured, not where kept figures are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relpos.data.pairs import PairSource
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.runs.bar import bar
from relpos.runs.trained import Trained

if TYPE_CHECKING:
    import torch

    from relpos.data.store import Store
    from relpos.model.heads import MaskedLM

WINDOW = 32
"""Tokens of each text on which probes and attention are measured."""
TEXTS = 256
"""How many such texts there are, at most."""
Results = dict[str, Any]


class NothingToMeasure(RelposError):
    """There is no text for a measure, or there are no pairs."""


@dataclass(frozen=True)
class Dials:
    """What is measured and on how much.

    Args:
        measures: some of `MEASURES`; None: all for which there are text and pairs.
        examples: held-out examples of the shuffle gap, at most.
        form: of the pseudo-log-likelihood, `within_word` or `plain`.
    """

    measures: tuple[str, ...] | None = None
    examples: int = 1_000
    form: str = "within_word"


def _shuffle(subject: Trained, dials: Dials, _: Any, model: MaskedLM, tokenizer: Tokenizer, words: Words) -> Results:
    from relpos.analysis.shuffle_gap import shuffle_gap
    from relpos.data.shuffle import WINDOWS

    examples = _store(subject, tokenizer).examples("heldout", subject.packing, subject.length, dials.examples)
    with bar(f"{subject.name}: shuffled text", len(examples) * (1 + len(WINDOWS))) as advance:
        gap = shuffle_gap(model, examples, words, advance)
    by_example = {"predicted": gap.predicted.astype(int).tolist(), "all": gap.differences["all"].round(4).tolist()}
    return {
        "shuffle_gap": gap.gaps,
        "shuffle_gap_intervals": gap.intervals,
        "heldout_loss": gap.loss,
        "examples": len(examples),
        "by_example": by_example,
    }


def _pairs(
    subject: Trained, dials: Dials, source: PairSource | None, model: MaskedLM, tokenizer: Tokenizer, words: Words
) -> Results:
    from relpos.analysis.minimal_pairs import minimal_pairs

    pairs = named_pairs(source).pairs()
    with bar(f"{subject.name}: minimal pairs", 2 * len(pairs)) as advance:
        scores = minimal_pairs(model, tokenizer, pairs, dials.form, words, advance)
    return {"pairs": scores.summary(), "form": dials.form, "answers": scores.answers()}


def _probes(subject: Trained, _dials: Dials, _: Any, model: MaskedLM, tokenizer: Tokenizer, words: Words) -> Results:
    from relpos.analysis.order_probes import order_probes
    from relpos.data.shuffle import shuffled

    return {"probes": order_probes(model, shuffled(_texts(subject, tokenizer, model), words), tokenizer.marks)}


def _attention(subject: Trained, _dials: Dials, _: Any, model: MaskedLM, tokenizer: Tokenizer, words: Words) -> Results:
    from relpos.analysis.attention_mass import attention_mass

    return {"attention": attention_mass(model, _texts(subject, tokenizer, model), tokenizer.marks)}


def _texts(subject: Trained, tokenizer: Tokenizer, model: MaskedLM) -> torch.Tensor:
    from relpos.data.shuffle import windows_of_text

    window = min(WINDOW, (model.encoder.position.max_length or WINDOW + 2) - 2)
    texts = windows_of_text(_store(subject, tokenizer).examples("heldout", "document", window + 2), TEXTS)
    if len(texts) < 6:
        raise NothingToMeasure(
            f"{subject.name}: {len(texts)} held-out windows of {window} tokens are too few for probes and attention"
        )
    return texts


def _store(subject: Trained, tokenizer: Tokenizer) -> Store:
    if subject.store is None:
        raise NothingToMeasure(f"network={subject.folder}: held-out text is not known for a model folder; name it: store=FOLDER")
    from relpos.data.store import Store

    store = Store(subject.store)
    if store.vocabulary != tokenizer.size:
        raise RelposError(
            f"store={subject.store}: made with {store.vocabulary} pieces, the network's tokenizer has {tokenizer.size}"
        )
    return store


def named_pairs(source: PairSource | None) -> PairSource:
    """The source itself.

    Raises:
        NothingToMeasure: it is None: there are no pairs for this network.
    """
    if source is None:
        raise NothingToMeasure("there are no pairs for this network; name some, as in pairs=zorro or pairs=FILE")
    return source


FUNCTIONS: dict[str, Callable[..., Results]] = {"shuffle": _shuffle, "pairs": _pairs, "probes": _probes, "attention": _attention}
"""Measure → its function of (the network on disk, dials, source of pairs, the loaded network, tokenizer, word boundaries)."""
MEASURES = tuple(FUNCTIONS)
