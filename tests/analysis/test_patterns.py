"""What a scheme adds to the scores, as `recording` hears it, and its figures."""

import pytest
import torch

from relpos.analysis.patterns import pattern, reveal
from relpos.analysis.recording import added, random_ids, record
from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.model.kernels import eager
from relpos.model.position import Merge
from schemes import POSITIONS, model_of, network, preset


def encoder_of(name: str) -> Encoder:
    return model_of(name).eval().encoder


@pytest.mark.parametrize("name", POSITIONS)
def test_the_terms_are_those_that_the_kernel_adds(name):
    encoder = encoder_of(name)
    for call in record(encoder, random_ids(encoder, 2, 9)):
        like = torch.zeros(2, 4 if encoder.position.splits else 2, 9, 4, dtype=torch.float64)
        expected = eager.scores(None, None, call.terms, like)
        terms = added(call.terms, 9)
        torch.testing.assert_close(
            torch.zeros_like(expected) if terms is None else terms.expand_as(expected), expected
        )


def test_the_mean_at_an_offset_is_that_of_its_diagonal():
    result = pattern(encoder_of("synthesizer_random"), layer=1, length=6)
    assert result.mean.shape == (2, 11)
    assert float(result.mean[1, 5 + 2]) == pytest.approx(
        float(result.matrix[1].diagonal(2).mean()), abs=1e-6
    )
    assert float(result.mean[0, 5 - 5]) == pytest.approx(float(result.matrix[0, 5, 0]), abs=1e-6)
    assert bool((result.low <= result.high + 1e-6).all())


def test_patterns_that_do_not_depend_on_tokens_have_no_spread():
    spread = {}
    for name in ("tisa", "dynamic"):
        result = pattern(encoder_of(name), length=8)
        spread[name] = float((result.high - result.low).max())
    assert spread["tisa"] < 1e-6 < spread["dynamic"]


@pytest.mark.parametrize("name", ["absolute", "alibi", "rope"])
def test_hidden_tokens_have_no_value(name):
    window = preset("position", "window", reach=2)
    ahead = torch.ones(6, 6, dtype=torch.bool).triu(1)
    for causal, model in (
        (True, model_of(name)),
        (False, network(lambda shape: Merge(shape, [preset("position", name), window]))),
    ):
        model.encoder.causal = causal
        unseen = ahead if causal else ahead.triu(3) | ahead.triu(3).T
        assert torch.equal(pattern(model.eval().encoder, length=6).matrix[0].isnan(), unseen)


def test_turned_queries_of_ones_follow_the_formula_of_rope():
    result = pattern(encoder_of("rope"), length=8, trained=False)
    offsets = torch.arange(-7.0, 8.0)
    waves = [10000 ** (-m / 2) for m in range(2)]  # head_dim 4
    expected = sum(2 * (torch.cos(offsets * wave) - 1) for wave in waves) / 2
    torch.testing.assert_close(result.mean[0], expected, atol=1e-5, rtol=1e-5)


def test_rows_added_to_the_embeddings_are_drawn_as_their_products():
    encoder = encoder_of("absolute")
    result = pattern(encoder, length=6, trained=False)
    rows = encoder.position.table.detach().float()[:6]
    torch.testing.assert_close(result.matrix[0], rows @ rows.t() / 6**0.5)


def test_trained_rows_are_drawn_as_queries_and_keys_see_them():
    encoder = encoder_of("absolute")
    result = pattern(encoder, length=6)
    assert result.matrix.shape == (2, 6, 6)
    assert float(result.matrix.mean()) == pytest.approx(0, abs=1e-5)
    with torch.no_grad():
        encoder.position.table[:] = encoder.position.table[0].clone()
    flat = pattern(encoder, length=6)
    assert float(flat.matrix.abs().max()) < 1e-5


def test_no_positions_have_no_pattern_and_a_missing_layer_is_refused():
    assert pattern(encoder_of("none")) is None
    with pytest.raises(RelposError, match="layer=3: there are 2"):
        pattern(encoder_of("fixed"), layer=2)


def test_reveal_fills_tables_of_zeros_alone():
    scheme = preset("position", "composite")(model_of("none").encoder.shape)
    before = scheme.query.clone()
    assert reveal(scheme)
    assert scheme.beta.abs().min() > 0
    assert torch.equal(scheme.query, before)
    assert not reveal(scheme)


def test_every_preset_can_be_drawn():
    empty = [
        name for name in POSITIONS if pattern(encoder_of(name), length=8, trained=False) is None
    ]
    classes = [type(encoder_of(name).position).__name__ for name in empty]
    assert classes == ["NoPosition", "Window"]
