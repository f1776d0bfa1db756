"""DeBERTa's disentangled attention: as Transformers computes it, its buckets, and what it
refuses."""

import pytest
import torch
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.kernels import eager
from relpos.model.position import Deberta
from relpos.model.position.base import Input
from relpos.model.shape import Shape
from relpos.model.tokens import Tokens
from schemes import model_of

# √(3 · 12) = 6, exact in float32, too
WIDE = Shape(heads=2, head_dim=12, hidden=24, embedding=24, layers=2, max_positions=16)
N = 60


def theirs(scheme: Deberta, max_distance: int) -> nn.Module:
    """A layer of Transformers' DeBERTa-v2 with random weights."""
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    config = DebertaV2Config(
        hidden_size=WIDE.hidden, num_attention_heads=WIDE.heads, relative_attention=True, position_buckets=scheme.buckets,
        max_relative_positions=max_distance, pos_att_type=["c2p", "p2c"], share_att_key=scheme.share,
    )  # fmt: skip
    return DisentangledSelfAttention(config).double().eval()


def copy_maps(scheme: Deberta, layer: nn.Module) -> None:
    """The layer's own maps for positions into the scheme."""
    with torch.no_grad():
        for name, own in scheme.own[1].named_parameters():
            own.copy_(
                torch.cat(
                    [getattr(part, name) for part in (layer.pos_query_proj, layer.pos_key_proj)]
                )
            )


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(256, 512), (32, 512), (8, 40)])
def test_the_attention_is_that_of_transformers(share, buckets, max_distance):
    torch.manual_seed(0)
    scheme = Deberta(WIDE, buckets, max_distance, share).double()
    layer, x = theirs(scheme, max_distance), torch.randn(2, N, WIDE.hidden, dtype=torch.float64)
    nn.init.normal_(scheme.table)
    if not share:
        copy_maps(scheme, layer)
    expected, _ = layer(x, torch.ones(2, 1, N, N), rel_embeddings=scheme.norm(scheme.table))

    def project(rows: Tensor) -> dict[str, Tensor]:
        return {"q": layer.query_proj(rows), "k": layer.key_proj(rows)}

    q, k, v = (
        part(x).unflatten(2, (WIDE.heads, -1)).transpose(1, 2)
        for part in (layer.query_proj, layer.key_proj, layer.value_proj)
    )
    terms = scheme.terms(
        1, q, k, scheme.see(1, Input(x, Tokens(2, N), None, project), scheme.prepare(N))
    )
    output = (
        eager.attention(q * scheme.scale, k, v, terms, None, (0.0, 0)).transpose(1, 2).flatten(2)
    )
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)


def test_a_convolution_in_place_of_a_shared_map_is_refused_in_one_line():
    with pytest.raises(
        RelposError, match=r"^conv ConvQK makes k, q, whose linear maps position Deberta needs$"
    ):
        model_of("deberta", "qk")
    model_of("deberta", "qk", share=False)
