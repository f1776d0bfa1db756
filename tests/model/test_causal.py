"""`size.attention=causal`: no output depends on what stands behind it, and nothing else changes."""

import pytest
import torch
from torch.nn import functional

from relpos.errors import RelposError
from relpos.model.architecture import Size
from relpos.model.dropout import seed_dropout
from relpos.model.encoder import Encoder
from relpos.model.heads import Classifier
from schemes import (
    CONVS,
    POSITIONS,
    SIZE,
    VOCABULARY,
    batch,
    build,
    cases,
    check_loops,
    model_of,
    preset,
    variants,
)

AHEAD = {"selective_rope"}  # convolves to both sides


def outputs_before_a_change(encoder: Encoder) -> tuple[torch.Tensor, torch.Tensor]:
    """(5, hidden) twice: the outputs at the first five tokens, before and after all behind them
    have changed."""
    ids, _ = batch(rows=1)
    changed = torch.cat((ids[:, :5], (ids[:, 5:] + 3) % VOCABULARY), 1)
    assert not torch.allclose(encoder(ids)[:, 5:], encoder(changed)[:, 5:])
    return encoder(ids)[0, :5], encoder(changed)[0, :5]


@pytest.mark.parametrize(("name", "keys"), cases("position", sorted(set(POSITIONS) - AHEAD)))
def test_outputs_do_not_depend_on_what_comes_later(name, keys):
    torch.testing.assert_close(
        *outputs_before_a_change(model_of(name, attention="causal", **keys).eval().encoder),
        atol=1e-12,
        rtol=0,
    )


@pytest.mark.parametrize("name", ["none", "rope", "composite_key", "cope", "modernbert"])
def test_nor_do_they_in_layers_of_2024(name):
    torch.manual_seed(0)
    modern = {
        "norm_first": True,
        "norm": "rms",
        "glu": True,
        "bias": False,
        "qk_norm": True,
        "attention": "causal",
    }
    encoder = build(SIZE | modern, preset("position", name), VOCABULARY).double().eval().encoder
    torch.testing.assert_close(*outputs_before_a_change(encoder), atol=1e-12, rtol=0)


@pytest.mark.parametrize("conv", CONVS)
def test_convolutions_do_so_too_or_are_refused_in_one_line(conv):
    for keys in variants("conv", conv):
        try:
            encoder = model_of("none", conv, attention="causal", conv_keys=keys).eval().encoder
        except RelposError as error:
            message = str(error)
            name = model_of("none", conv, conv_keys=keys).encoder.layers[0].attention.conv.name
            assert (
                message
                == f"size.attention=causal: conv {name} reads what stands on the right of a token"
            )
        else:
            torch.testing.assert_close(*outputs_before_a_change(encoder), atol=1e-12, rtol=0)


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
        torch.testing.assert_close(
            *outputs_before_a_change(model.eval().encoder), atol=1e-12, rtol=0
        )


@pytest.mark.parametrize("name", sorted(AHEAD))
def test_schemes_that_look_ahead_are_refused_in_one_line(name):
    with pytest.raises(
        RelposError,
        match=r"size.attention=causal: position SelectiveRope reads what stands on the right",
    ):
        model_of(name, attention="causal")


@pytest.mark.parametrize("name", sorted(set(POSITIONS) - AHEAD))
def test_definition_of_causal_networks_outputs_and_gradients_equal_the_loops(name):
    encoder = model_of(name, kernel="eager", attention="causal", layers=1).eval().encoder
    check_loops(encoder, ids=[7, 9, 5, 0, 12], real=[True, True, True, False, True])


@pytest.mark.parametrize("kernel", ["fused", "auto"])
@pytest.mark.parametrize("name", ["none", "fixed", "composite_key", "window", "tupe", "cope"])
def test_every_kernel_equals_eager(name, kernel):
    """`auto` is the compiled one in float32, where there is a compiler."""
    ids, mask = batch()
    found = []
    for each in ("eager", kernel):
        model = model_of(name, kernel=each, attention="causal").float().train()
        seed_dropout(model, 5, torch.arange(2))
        x = model.encoder(ids, mask) * mask[:, :, None]
        x.square().sum().backward()
        found.append(
            [x.detach(), *(p.grad for p in model.encoder.parameters() if p.grad is not None)]
        )
    torch.testing.assert_close(*found, atol=2e-4, rtol=2e-4)


def test_the_loss_is_that_of_the_next_token():
    model = model_of("fixed", attention="causal").eval()
    ids, mask = batch()
    labels = ids.masked_fill(mask == 0, -100)
    expected = functional.cross_entropy(
        model(ids, mask)[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    )
    torch.testing.assert_close(model.loss(ids, labels, mask), expected)


def test_a_classifier_reads_the_last_real_token():
    size = Size(**SIZE | {"attention": "causal"})
    encoder = Encoder(size, preset("position", "fixed"), vocabulary=VOCABULARY)
    classifier = Classifier(encoder, 3).eval()
    ids, mask = batch()
    torch.testing.assert_close(classifier(ids, mask)[1:], classifier(ids[1:, :6]))
    changed = ids.clone()
    changed[:, 0] = ids[:, 0] % 5 + 7
    assert not torch.allclose(classifier(ids, mask), classifier(changed, mask))
    changed = ids.clone()
    changed[1, 5] = ids[1, 5] % 5 + 7
    assert not torch.allclose(classifier(ids, mask)[1], classifier(changed, mask)[1])
    torch.testing.assert_close(classifier(ids), classifier(ids, torch.ones_like(ids)))
