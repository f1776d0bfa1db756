"""RoPE: facts beyond the general laws."""

import cmath
from dataclasses import replace

import pytest
import torch

from relpos.model.position import Rope
from schemes import SHAPE


def test_angles_at_a_far_position_are_exact_in_bfloat16_too():
    q = torch.ones(1, SHAPE.heads, 4097, SHAPE.head_dim, dtype=torch.bfloat16)
    scheme = Rope(SHAPE)
    queries = scheme.turn(0, q, q, q, scheme.prepare(4097))[0]
    expected = (1 + 1j) * cmath.exp(4096j)
    assert queries[0, 0, -1, :2].tolist() == pytest.approx([expected.real, expected.imag], abs=1e-6)


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.3, 0.75, 1.0])
def test_a_fraction_of_the_pairs_turns_as_in_gemma_4(fraction):
    """Transformers computes the angles in float32."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rotation = {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": fraction}
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=2, head_dim=16, rope_parameters=rotation
    )
    expected, _ = ROPE_INIT_FUNCTIONS["proportional"](config, "cpu")
    wave = Rope(replace(SHAPE, head_dim=16), base=500.0, fraction=fraction).exact("wave")
    torch.testing.assert_close(wave.float(), expected)
    assert (wave == 0).sum() == 8 - int(fraction * 8)


def test_a_fraction_is_that_of_its_decimals():
    turning = Rope(replace(SHAPE, head_dim=100), fraction=0.58).exact("wave").count_nonzero()
    assert turning == 29  # 0.58 · 100 / 2 is below 29 in binary
