"""`size.attention=causal`: no output depends on what stands behind it, and nothing else changes."""

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from relpos.errors import RelposError
from relpos.model.architecture import Size
from relpos.model.dropout import seed_dropout
from relpos.model.encoder import Encoder
from relpos.model.heads import Classifier, MaskedLM
from schemes import (
    CONVS,
    MODERN,
    POSITIONS,
    SIZE,
    VOCABULARY,
    batch,
    cases,
    check_loops,
    gradients_of,
    model_of,
    network,
    preset,
    variants,
)

AHEAD = {"selective_rope"}  # convolves to both sides


def assert_sees_nothing_ahead(model: MaskedLM) -> None:
    """The outputs at the first five tokens stay when all behind them change."""
    encoder, (ids, _) = model.eval().encoder, batch(rows=1)
    changed = torch.cat((ids[:, :5], (ids[:, 5:] + 3) % VOCABULARY), 1)
    before, after = encoder(ids), encoder(changed)
    assert not torch.allclose(before[:, 5:], after[:, 5:])
    assert_close(before[:, :5], after[:, :5], atol=1e-12, rtol=0)


@pytest.mark.parametrize(("name", "keys"), cases("position", sorted(set(POSITIONS) - AHEAD)))
def test_outputs_do_not_depend_on_what_comes_later(name, keys):
    assert_sees_nothing_ahead(model_of(name, attention="causal", **keys))


@pytest.mark.parametrize("name", ["none", "rope", "composite_key", "cope", "modernbert"])
def test_modern_layers_see_nothing_ahead(name):
    assert_sees_nothing_ahead(network(preset("position", name), attention="causal", **MODERN))


@pytest.mark.parametrize("conv", CONVS)
def test_convolutions_see_nothing_ahead_or_are_refused_in_one_line(conv):
    for keys in variants("conv", conv):
        try:
            model = model_of("none", conv, attention="causal", conv_keys=keys)
        except RelposError as error:
            message = str(error)
            name = model_of("none", conv, conv_keys=keys).encoder.layers[0].attention.conv.name
            expected = (
                f"size.attention=causal: conv {name} reads what stands on the right of a token"
            )
            assert message == expected
        else:
            assert_sees_nothing_ahead(model)


def test_forms_that_read_nothing_ahead_are_not_refused():
    for model in (
        model_of("none", "kv_shift", attention="causal", conv_keys={"right": False}),
        model_of("none", "canon_left", attention="causal"),
        model_of("selective_rope", attention="causal", side=0),
        model_of("none", "convbert", attention="causal", conv_keys={"width": 1}),
        *(
            model_of("none", conv, attention="causal", conv_keys={"k": 0})
            for conv in ("depthwise_qk", "lightconv", "dynamicconv")
        ),
    ):
        assert_sees_nothing_ahead(model)


@pytest.mark.parametrize("name", sorted(AHEAD))
def test_schemes_that_look_ahead_are_refused_in_one_line(name):
    with pytest.raises(
        RelposError,
        match=r"size.attention=causal: position SelectiveRope reads what stands on the right",
    ):
        model_of(name, attention="causal")


@pytest.mark.parametrize("name", sorted(set(POSITIONS) - AHEAD))
def test_definition_of_causal_networks_outputs_and_gradients_equal_the_loops(name):
    check_loops(model_of(name, kernel="eager", attention="causal", layers=1).eval().encoder)


@pytest.mark.parametrize("kernel", ["fused", "auto"])
@pytest.mark.parametrize("name", ["none", "fixed", "composite_key", "window", "tupe", "cope"])
def test_every_kernel_equals_eager(name, kernel):
    """`auto` is the compiled one in float32, where there is a compiler."""
    ids, mask = batch()
    results = []
    for choice in ("eager", kernel):
        model = model_of(name, kernel=choice, attention="causal").float().train()
        seed_dropout(model, 5, torch.arange(2))
        x = model.encoder(ids, mask) * mask[:, :, None]
        x.square().sum().backward()
        results.append([x.detach(), *gradients_of(model.encoder)])
    assert_close(*results, atol=2e-4, rtol=2e-4)


def test_the_loss_is_that_of_the_next_token():
    model = model_of("fixed", attention="causal").eval()
    ids, mask = batch()
    labels = ids.masked_fill(mask == 0, -100)
    expected = functional.cross_entropy(
        model(ids, mask)[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    )
    assert_close(model.loss(ids, labels, mask), expected)


def test_a_classifier_reads_the_last_real_token():
    size = Size(**SIZE | {"attention": "causal"})
    encoder = Encoder(size, preset("position", "fixed"), vocabulary=VOCABULARY)
    classifier = Classifier(encoder, 3).eval()
    ids, mask = batch()
    assert_close(classifier(ids, mask)[1:], classifier(ids[1:, :6]))
    changed = ids.clone()
    changed[:, 0] = ids[:, 0] % 5 + 7
    assert not torch.allclose(classifier(ids, mask), classifier(changed, mask))
    changed = ids.clone()
    changed[1, 5] = ids[1, 5] % 5 + 7
    assert not torch.allclose(classifier(ids, mask)[1], classifier(changed, mask)[1])
    assert_close(classifier(ids), classifier(ids, torch.ones_like(ids)))
