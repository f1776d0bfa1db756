"""RoPE: facts beyond the general laws."""

import cmath
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from relpos.model.position import Rope
from schemes import SHAPE, model_of


def turned(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    scheme = Rope(replace(SHAPE, head_dim=q.shape[-1]))
    return scheme.turn(0, q, k, q, scheme.prepare(q.shape[2]))[:2]


def same_token(n: int, width: int = 8) -> tuple[Tensor, Tensor]:
    """One random q and k (1, 1, n, width), the same at all positions."""
    q, k = torch.randn(2, 1, 1, 1, width, generator=torch.Generator().manual_seed(0)).double()
    return q.expand(1, 1, n, width), k.expand(1, 1, n, width)


def test_scores_with_rotations_depend_on_the_offset_alone() -> None:
    q, k = turned(*same_token(12))
    scores = (q @ k.transpose(-1, -2))[0, 0]
    torch.testing.assert_close(scores[:-1, :-1], scores[1:, 1:])
    assert (scores[0, 1] - scores[1, 0]).abs() > 1e-3


def test_scores_are_those_of_complex_numbers() -> None:
    """q_i·k_j = Re Σ_m q_m conj(k_m) exp(i (i − j) θ_m), channels 2m and 2m+1 a complex number"""
    plain_q, plain_k = same_token(6)
    q, k = turned(plain_q, plain_k)
    x, y = plain_q[0, 0, 0].tolist(), plain_k[0, 0, 0].tolist()
    for i in range(6):
        for j in range(6):
            expected = sum(
                complex(*x[c : c + 2]) * complex(*y[c : c + 2]).conjugate() * cmath.exp(1j * (i - j) * 10000 ** (-c / 8))
                for c in range(0, 8, 2)
            ).real
            assert float(q[0, 0, i] @ k[0, 0, j]) == pytest.approx(expected, abs=1e-12)


def test_the_first_token_stays_and_lengths_are_kept() -> None:
    plain = same_token(9)
    q, k = turned(*plain)
    torch.testing.assert_close(q[:, :, 0], plain[0][:, :, 0])
    torch.testing.assert_close(torch.stack((q, k)).norm(dim=-1), torch.stack(plain).norm(dim=-1))


def test_values_are_not_turned() -> None:
    scheme, x = Rope(SHAPE), torch.randn(1, SHAPE.heads, 5, SHAPE.head_dim)
    assert scheme.turn(0, x, x, x, scheme.prepare(5))[2] is x


def test_angles_at_a_far_position_are_exact_in_bfloat16_too() -> None:
    q = torch.ones(1, SHAPE.heads, 4097, SHAPE.head_dim, dtype=torch.bfloat16)
    scheme = Rope(SHAPE)
    found = scheme.turn(0, q, q, q, scheme.prepare(4097))[0]
    expected = (1 + 1j) * cmath.exp(4096j)
    assert found[0, 0, -1, :2].tolist() == pytest.approx([expected.real, expected.imag], abs=1e-6)


def test_the_layout_that_attention_hands_over_makes_no_difference() -> None:
    x = torch.randn(2, 7, 3 * 8)  # q, k and v side by side
    q, k, _ = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in x.chunk(3, -1))
    scheme = Rope(SHAPE)
    state = scheme.prepare(7)
    assert torch.equal(scheme.turn(0, q, k, q, state)[1], scheme.turn(0, q, k.contiguous(), q, state)[1])


def test_two_equal_tokens_are_no_longer_alike() -> None:
    hidden = model_of("rope").eval().encoder(torch.tensor([[7, 9, 7, 5]]))[0]
    assert (hidden[0] - hidden[2]).abs().max() > 1e-4


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.3, 0.75, 1.0])
def test_a_fraction_of_the_pairs_turns_as_in_gemma_4(fraction: float) -> None:
    """Transformers computes the angles in float32."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rotation = {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": fraction}
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, head_dim=16, rope_parameters=rotation)
    expected, _ = ROPE_INIT_FUNCTIONS["proportional"](config, "cpu")
    wave = Rope(replace(SHAPE, head_dim=16), base=500.0, fraction=fraction).exact("wave")
    torch.testing.assert_close(wave.float(), expected)
    assert (wave == 0).sum() == 8 - int(fraction * 8)


def test_a_fraction_is_that_of_its_decimals() -> None:
    turning = Rope(replace(SHAPE, head_dim=100), fraction=0.58).exact("wave").count_nonzero()
    assert turning == 29  # 0.58 · 100 / 2 is below 29 in binary
