"""Networks whose positions are taken away or added to."""

import copy

import pytest
import torch

from relpos.errors import RelposError
from relpos.model.position import Tisa
from relpos.model.surgery import (
    add_tisa,
    average_positions,
    fold_positions,
    position_table,
    set_tisa,
)
from schemes import is_counted, model_of

IDS = torch.tensor([[5, 9, 7, 11, 6, 8]])


@torch.no_grad()
def test_a_mean_row_everywhere_and_no_table_are_the_same_network():
    averaged = model_of("absolute").eval()
    folded = copy.deepcopy(averaged)
    average_positions(averaged.encoder)
    fold_positions(folded.encoder)
    assert not any("position" in name for name, _ in folded.named_parameters())
    types = torch.tensor([[0, 0, 0, 1, 1, 1]])
    torch.testing.assert_close(
        folded(IDS, token_types=types), averaged(IDS, token_types=types), atol=1e-12, rtol=0
    )


@torch.no_grad()
def test_without_positions_the_order_is_not_seen():
    model = model_of("absolute").eval()
    assert not torch.allclose(model(IDS.flip(1)).flip(1), model(IDS))
    average_positions(model.encoder)
    torch.testing.assert_close(model(IDS.flip(1)).flip(1), model(IDS))


@pytest.mark.parametrize("position", ["absolute", "none", "composite"])
@torch.no_grad()
def test_tisa_with_zero_amplitudes_is_the_host_to_the_last_bit(position):
    model = model_of(position).float().eval()
    before = model(IDS)
    tisa = add_tisa(model.encoder, 3)
    tisa.amplitude.zero_()
    assert torch.equal(model(IDS), before)


@torch.no_grad()
def test_each_layer_and_head_gets_its_own_values_of_tisa():
    model = model_of("absolute").eval()
    tisa = add_tisa(model.encoder, 1)
    set_tisa(tisa, [[([layer + head], [999.0], [1.0]) for head in range(2)] for layer in range(2)])
    assert [[float(head[3]) for head in layer] for layer in tisa.prepare(3)] == [
        [0.0, 1.0],
        [1.0, 2.0],
    ]


def test_a_reused_module_serves_every_layer():
    encoder = model_of("none").encoder
    tisa = add_tisa(encoder, 2, reused=True)
    assert isinstance(tisa, Tisa)
    assert is_counted(tisa, encoder.shape)
    assert tisa.count(encoder.shape) == 3 * 2 * 2
    state, q = tisa.prepare(4), torch.zeros(1, 2, 4, 4)
    assert tisa.terms(0, q, q, state).offset is tisa.terms(1, q, q, state).offset


def test_tisa_beside_a_table_leaves_the_table_to_be_found():
    encoder = model_of("absolute").encoder
    table = position_table(encoder)
    for _ in range(2):  # the second time the table is a part of a part
        add_tisa(encoder, 1)
        assert position_table(encoder) is table


def test_a_scheme_without_a_table_is_refused():
    with pytest.raises(RelposError, match="Fixed is no table"):
        average_positions(model_of("fixed").encoder)
    encoder = model_of("absolute").encoder
    add_tisa(encoder, 1)
    with pytest.raises(RelposError, match="cannot be folded away"):
        fold_positions(encoder)


def test_positions_cannot_be_folded_into_token_types_that_do_not_exist():
    encoder = model_of("absolute").encoder
    encoder.embedding.types = None
    with pytest.raises(RelposError, match="this network has no token types"):
        fold_positions(encoder)


def test_without_token_types_those_of_the_input_do_not_matter():
    encoder = model_of("absolute").encoder.eval()
    encoder.embedding.types = None
    assert torch.equal(encoder(IDS, token_types=torch.ones_like(IDS)), encoder(IDS))


def test_tisa_is_refused_where_there_are_no_scores():
    encoder = model_of("absolute", "lightconv").encoder
    with pytest.raises(RelposError, match="LightConv has no scores"):
        add_tisa(encoder, 3)
    assert type(encoder.position).__name__ == "Absolute"
