"""The encoder with what it is made of: embedding, `attention`, its sums, number formats
(`precision`)."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from relpos.errors import RelposError
from relpos.model.architecture import Size
from relpos.model.block import add_norm
from relpos.model.conv import Conv
from relpos.model.encoder import Encoder
from relpos.model.position import Composite, NoPosition
from relpos.model.precision import autocast
from relpos.model.tokens import Tokens
from schemes import SHAPE, SIZE, VOCABULARY, batch, build, model_of, refusal


def test_no_mask_and_no_types_mean_all_real_and_all_type_zero():
    encoder = model_of("composite").encoder.eval()
    ids, _ = batch()
    assert torch.equal(encoder(ids), encoder(ids, torch.ones_like(ids), torch.zeros_like(ids)))


def test_the_second_type_makes_a_difference():
    encoder = model_of("composite").encoder.eval()
    ids, _ = batch()
    assert not torch.allclose(encoder(ids), encoder(ids, token_types=torch.ones_like(ids)))


def test_initialisation_is_the_authors():
    torch.manual_seed(0)
    model = build({**SIZE, "hidden": 128, "embedding": 64}, Composite, 2000)
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Embedding) and part.weight.numel() > 5000:
            assert float(part.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
        if isinstance(part, nn.Linear):
            assert part.bias.abs().max() == 0
    position = model.encoder.position
    assert position.beta.abs().max() == 0
    assert float(position.query.detach().abs().max()) == pytest.approx(17**-0.5, rel=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "hidden=8 is not a multiple of heads=3"),
        ({"layers": 0}, "layers=0: a whole number from 1 to 1,000 is expected"),
        ({"ffn": "many"}, "ffn=many: a whole number from 1 to 1,000,000 is expected"),
        (
            {"activation": "gelo"},
            "activation=gelo: gelu, gelu_new, relu or silu is expected. Did you mean 'gelu'?",
        ),
        ({"dropout": 1.5}, "dropout=1.5: a number from 0 up to, not including, 1 is expected"),
    ],
)
def test_impossible_sizes_are_one_line(change, message):
    assert refusal(build, {**SIZE, **change}, NoPosition, VOCABULARY) == message


class OwnValues(Conv):
    """Makes the values and adds them again after the softmax; records the mask."""

    projections = frozenset("v")

    def __init__(self, shape: Any) -> None:
        super().__init__(shape)
        self.map = nn.Linear(shape.hidden, shape.heads * shape.head_dim)

    def project(self, x: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        self.seen = mask
        return {"v": self.map(x)}

    def after(self, v: Tensor, mask: Tensor | None) -> Tensor | None:
        return v


def test_a_convolution_takes_over_projections_and_receives_the_padding():
    model = build(SIZE, Composite, VOCABULARY, conv=OwnValues)
    attention = model.encoder.layers[0].attention
    assert attention.project.out_features == 2 * SHAPE.hidden  # q and k only
    ids, mask = batch()
    model(ids, mask).sum().backward()
    assert attention.conv.seen.dtype == torch.bool
    assert attention.conv.map.weight.grad.abs().max() > 0


def test_add_norm_is_its_formula():
    norm = nn.LayerNorm(6, eps=1e-12).double()
    x, y = (torch.randn(4, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert_close(add_norm(x, y, norm, (0.0, 0)), norm(x + y))
    assert torch.autograd.gradcheck(lambda x, y: add_norm(x, y, norm, (0.3, 7)), (x, y))


@pytest.mark.parametrize("scheme", [NoPosition, Composite])
@pytest.mark.parametrize("embedding", [6, 8])
def test_bfloat16_is_close_and_its_gradients_are_float32(scheme, embedding):
    torch.manual_seed(0)
    model = build({**SIZE, "embedding": embedding, "max_positions": 32}, scheme, VOCABULARY).eval()
    ids, mask = batch(n=20)
    expected = model.loss(ids, ids, mask)
    with autocast("bf16", "cpu"):
        loss = model.loss(ids, ids, mask)
        assert model.encoder(ids, mask).dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=2e-3)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.dtype == torch.float32, name


def test_precision_is_one_of_two_words():
    with pytest.raises(RelposError, match="precision=fp16: fp32 or bf16 is expected"):
        autocast("fp16", "cpu")


def test_the_encoder_is_usable_without_hydra():
    position = lambda shape: Composite(shape, k=8, outside="zero")  # noqa: E731
    size = Size(layers=1, hidden=16, embedding=8, heads=2, ffn=32)
    encoder = Encoder(size, position, vocabulary=50)
    assert encoder(torch.randint(50, (2, 30))).shape == (2, 30, 16)


def test_hidden_states_are_the_embeddings_and_the_output_of_each_layer():
    model = model_of("composite", layers=3).eval()
    ids, mask = batch()
    states = model.encoder(ids, mask, hidden_states=True)
    assert len(states) == 4
    assert torch.equal(states[-1], model.encoder(ids, mask))
    assert_close(states[0], model.encoder.embedding(ids, None, None, Tokens(*ids.shape)))


def test_a_batch_may_be_empty():
    assert model_of("fixed", "none")(torch.zeros(0, 5, dtype=torch.int64)).shape[:2] == (0, 5)
