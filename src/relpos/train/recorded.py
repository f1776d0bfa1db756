"""Steps on a GPU, whose passes are replayed. Results are those of the plain step to rounding.

The CPU never waits for the device: inputs come with masks in and with the places of the tokens that are computed and predicted
(`relpos.data.passes`), so that nothing has to be counted before a pass is launched; the device draws dropout alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from relpos.counter import fold
from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast, cast_together
from relpos.model.recorded_keys import RecordedKeys
from relpos.model.tokens import Tokens
from relpos.train.replay import Inputs, Recorder, Replay

Losses = Callable[[Inputs, Tokens], tuple[Tensor, ...]]


class RecordedPasses:
    """Gradients of whole steps, pass by pass.

    Args:
        seed: of dropout.
        precision: `fp32` or `bf16`.
        losses: the inputs of a pass (input_ids (b, n), keys (b,) and others) and the tokens that are computed → the sum of its
            losses, and other sums over it.
    """

    def __init__(self, model: nn.Module, seed: int, precision: str, recorder: Recorder, losses: Losses) -> None:
        self.model, self.seed, self.precision, self.losses = model, seed, precision, losses
        self.device = next(model.parameters()).device
        self.keys = RecordedKeys(self.device)
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.parameters = list(named.values())
        self.multiplied = dict(_multiplied(model)) if precision == "bf16" else {}
        self.replay = Replay(self._pass, named, recorder)

    def sums(self, index: int, passes: list[Inputs]) -> Tensor:
        """Leaves the gradient of the summed losses in `grad`; the sums of `losses` over the passes, float64, on the device."""
        self.keys.fill(fold(self.seed, index))
        # Copied at once: the next replay overwrites the outputs of this one.
        return torch.stack([torch.stack([x.double() for x in self.replay(part)]) for part in passes]).sum(0)

    def divide(self, number: float) -> None:
        """The gradients by a number."""
        torch._foreach_div_([p.grad for p in self.parameters if p.grad is not None], number)

    def zero_gradients(self) -> None:
        """In place: recordings add to them where they are."""
        torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])

    def _pass(self, inputs: Inputs) -> tuple[Tensor, ...]:
        ids = inputs["input_ids"]
        seed_dropout(self.model, self.keys, inputs["keys"])
        with autocast(self.precision, self.device):
            cast = cast_together(self.multiplied, torch.bfloat16) if self.multiplied else {}
            given = inputs, Tokens(len(ids), ids.shape[1], inputs.get("held"))
            loss, *others = functional_call(_Called(self.model, self.losses), cast, given)
        # One addition for all parameters, and not one for each.
        grads = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        reached = [(p, grad) for p, grad in zip(self.parameters, grads, strict=True) if grad is not None]
        for p, _ in reached:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        torch._foreach_add_([p.grad for p, _ in reached if p.grad is not None], [grad for _, grad in reached])
        return loss.detach(), *others


class _Called(nn.Module):
    """A function of a model as the forward pass of a module, which `functional_call` needs."""

    def __init__(self, model: nn.Module, function: Losses) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *given: Any) -> tuple[Tensor, ...]:
        return self.function(*given)


def _multiplied(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What is multiplied in bfloat16, by its name in `_Called`. Schemes and convolutions choose their number formats themselves,
    and bias + GELU adds its bias in float32."""
    for name, module in model.named_modules(prefix="model"):
        if isinstance(module, nn.Linear) and not {"position", "conv"} & {*name.split(".")} and module.weight.dtype == torch.float32:
            yield f"{name}.weight", module.weight
            if module.bias is not None and name.endswith(".project"):
                yield f"{name}.bias", module.bias
