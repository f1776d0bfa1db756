"""Loss and gaps by the share of tokens that are masked."""

from pathlib import Path

import numpy as np
import pytest
import torch

import relpos
from linked import pretrained
from relpos.analysis.shuffle_gap import MIRROR, SHUFFLE, masking_rates, mirror_gap, shuffle_gap
from relpos.data.masking import IGNORED
from relpos.data.objective import Masked
from relpos.data.shuffle import masked_batches
from relpos.data.store import Store
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.measures.kept import kept
from relpos.measures.kinds.masking import RATES
from relpos.measures.measure import measured_columns
from relpos.runs.networks import resolve
from schemes import model_of


def test_fifteen_per_cent_are_the_shuffle_gap_and_the_mirror_gap(tokenizer: Tokenizer, store: Store) -> None:
    model = model_of("absolute", vocabulary=tokenizer.size, max_positions=64).float()
    examples, words = store.examples("heldout", "pair", 64, 12), Words(tokenizer)
    found, shuffled = masking_rates(model, examples, words, [15])[15], shuffle_gap(model, examples, words)
    assert found.loss == shuffled.loss
    assert found.gaps[SHUFFLE] == shuffled.gaps["all"]
    assert found.gaps[MIRROR] == mirror_gap(model, examples).gaps[MIRROR]


def test_without_positions_there_is_no_gap_at_any_rate(tokenizer: Tokenizer, store: Store) -> None:
    model = model_of("none", vocabulary=tokenizer.size, max_positions=64).float()
    for found in masking_rates(model, store.examples("heldout", "pair", 64, 12), Words(tokenizer), RATES).values():
        assert max(abs(gap) for gap in found.gaps.values()) <= 1e-5


def test_what_is_masked_at_one_rate_is_masked_at_a_higher_one(tokenizer: Tokenizer, store: Store) -> None:
    examples = store.examples("heldout", "pair", 64, 40)
    fewer, more = (next(masked_batches(examples, tokenizer.size, 2048, Masked(rate, rate)))[0] for rate in (0.3, 0.8))
    chosen = fewer.labels != IGNORED
    assert torch.equal(more.labels[chosen], fewer.labels[chosen])
    assert torch.equal(more.input_ids[chosen], fewer.input_ids[chosen])
    text = examples.lengths(torch.arange(40)).sum().item() - 3 * 40
    assert (more.labels != IGNORED).sum().item() / text == pytest.approx(0.8, abs=0.05)


def test_relpos_order_measures_it_and_tables_have_its_columns(prepared: Path, tmp_path: Path) -> None:
    [run] = pretrained(prepared, tmp_path, {"absolute": ["position=absolute"]}).values()
    assert not measured_columns()["loss_masked_5"][0].suits(resolve(run))
    shown = relpos.order(run, overrides=["measure=masking", "examples=20"])
    assert set(shown) == {"name", "folder", "masking"}
    assert list(shown["masking"]) == ["5", "15", "30", "50", "80"]
    measure, known = measured_columns()["loss_masked_80"][0], measured_columns()
    assert len([name for name in known if "_masked_" in name]) == 3 * len(RATES)
    (entry,) = kept(run, "masking")
    for quantity in ("loss", "shuffle_gap", "mirror_gap"):
        figure = measure.figure(f"{quantity}_masked_80", entry.results)
        assert figure is not None
        assert figure.parts is not None
        assert figure.value == shown["masking"]["80"][quantity] == pytest.approx(np.divide(*figure.parts.sum(1)), abs=1e-4)
        assert (figure.interval is None) == (quantity == "loss")
    assert measure.figure("loss_masked_5", {}) is None
