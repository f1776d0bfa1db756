"""Transformer-XL's positions: as Transformers computes them in XLNet."""

import torch
from torch import nn

from relpos.model.kernels import eager
from relpos.model.position import XL
from schemes import SHAPE

N, SIZES = 9, (SHAPE.hidden, SHAPE.heads, SHAPE.head_dim)


def test_the_attention_is_that_of_xlnet():
    from transformers import XLNetConfig, XLNetModel
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    torch.manual_seed(0)
    scheme = XL(SHAPE).double()
    theirs = (
        XLNetRelativeAttention(XLNetConfig(d_model=SHAPE.hidden, n_head=SHAPE.heads, d_inner=8))
        .double()
        .eval()
    )
    for parameter in (*scheme.parameters(), *theirs.parameters()):
        nn.init.normal_(parameter)
    with torch.no_grad():
        theirs.r.copy_(scheme.weight[1].t().reshape(SIZES))
        theirs.r_w_bias.copy_(scheme.u[1])
        theirs.r_r_bias.copy_(scheme.v[1])
    x = torch.randn(2, N, SHAPE.hidden, dtype=torch.float64)
    q, k, v = (torch.einsum("bih,hnd->bnid", x, part) for part in (theirs.q, theirs.k, theirs.v))
    wave = scheme.exact("wave")
    # as `relative_positional_encoding`
    r = XLNetModel.positional_embedding(torch.arange(N, -N, -1.0, dtype=torch.float64), wave)
    k_r = torch.einsum("ibh,hnd->ibnd", r.expand(-1, 2, -1), theirs.r)
    query, key, value = (part.permute(2, 0, 1, 3) for part in (q, k, v))
    expected = theirs.rel_attn_core(query, key, value, k_r).permute(1, 2, 0, 3)

    state = scheme.prepare(N)
    turned, _, _ = scheme.turn(1, q, k, v, state)
    output = eager.attention(
        turned * scheme.scale, k, v, scheme.terms(1, q, k, state), None, (0.0, 0)
    )
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
