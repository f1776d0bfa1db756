"""FoX and PoPE, as x-transformers computes them."""

from typing import Any

import pytest
import torch

from relpos.model.position import Fox, Pope
from schemes import SHAPE, added, given

N = 9


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is not installed (see .ci/run)"
    )


def test_gates_are_those_of_its_data_dependent_alibi_on_both_sides(theirs):
    scheme, seen = Fox(SHAPE).double(), given(SHAPE, 2, N)
    alibi = theirs.DataDependentAlibi(SHAPE.hidden, SHAPE.heads, causal=False).double()
    with torch.no_grad():
        linear = alibi.to_forget_gates[0]
        scheme.gates[1] = linear.weight.normal_()
        scheme.gate_bias[1] = linear.bias.normal_()
    torch.testing.assert_close(added(scheme, seen), alibi(seen.x), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("low", [-6.0, -9.0])
def test_turned_queries_and_keys_are_those_of_its_polar_embedding(low, theirs, monkeypatch):
    """It computes in float32, for which float64 is put here. Shifts beyond −2π count as that."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    scheme = Pope(SHAPE).double()
    polar = theirs.PolarEmbedding(SHAPE.head_dim, SHAPE.heads).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        polar.learned_bias.uniform_(low, 1.0, generator=generator)
        scheme.shift.copy_(polar.learned_bias[:, 0])
    q, k = torch.randn(2, 2, SHAPE.heads, N, SHAPE.head_dim, generator=generator).double()
    angles, shifts = polar(torch.arange(N))
    expected = theirs.apply_polar_pos_emb(q, angles), theirs.apply_polar_pos_emb(k, angles + shifts)
    torch.testing.assert_close(
        scheme.turn(0, q, k, k, scheme.prepare(N))[:2], expected, atol=1e-10, rtol=1e-10
    )
