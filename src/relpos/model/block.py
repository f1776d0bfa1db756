"""What the layers are made of besides attention: where the norm stands and which it is, the feed-forward network, biases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}
Activation = Literal["gelu", "gelu_new", "relu", "silu"]
NormKind = Literal["layer", "rms"]
Norm = nn.LayerNorm | nn.RMSNorm


@dataclass(frozen=True)
class Block:
    """The choices of a layer; the defaults are the post-layer-norm BERT of the papers. See `Encoder` for what each means."""

    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: Activation = "gelu"
    norm_eps: float = 1e-12
    norm_first: bool = False
    norm: NormKind = "layer"
    glu: bool = False
    bias: bool = True
    qk_norm: bool = False

    def norm_of(self, width: int) -> Norm:
        """A norm over vectors of this width: x ↦ g ⊙ (x − mean) / √(variance + eps) + b, or with `rms`
        x ↦ g ⊙ x / √(mean of x² + eps) (Zhang & Sennrich 2019, Eq. 4)."""
        if self.norm == "rms":
            return nn.RMSNorm(width, eps=self.norm_eps)
        return nn.LayerNorm(width, eps=self.norm_eps, bias=self.bias)

    def inner(self, ffn: int) -> int:
        """How many inner vectors the feed-forward network has before the activation."""
        return 2 * ffn if self.glu else ffn

    def activate(self, inner: Float[Tensor, "*tokens inner"]) -> Float[Tensor, "*tokens ffn"]:
        """act(inner), or with `glu` act(a) ⊙ b for inner = (a, b) (Shazeer 2020, Eq. 6: GEGLU with `gelu`, SwiGLU with `silu`)."""
        activation = ACTIVATIONS[self.activation]
        if not self.glu:
            return activation(inner)
        a, b = inner.chunk(2, -1)
        return activation(a) * b
