"""Steps on a GPU, whose passes are replayed: masks, places of predicted tokens and dropout are drawn on the device.

Results are those of the plain step to rounding. The CPU never waits for the device: gradients of the summed losses are divided by
the number of chosen tokens only at the end, because that number is known to the device alone; and the language model's head runs at
a fixed number of tokens, the chosen ones among them, so that nothing has to be counted before the pass is launched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from relpos.counter import fold
from relpos.data.marks import OURS, Marks
from relpos.data.objective import LEAST, Masked, Objective, diffused, masked
from relpos.data.steps import UnmaskedStep
from relpos.model.dropout import seed_dropout
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast, cast_together
from relpos.model.recorded_keys import RecordedKeys
from relpos.model.tokens import Tokens
from relpos.train.replay import Inputs, Recorder, Replay

Losses = Callable[[Inputs, Tokens], tuple[Tensor, ...]]

DEVIATIONS = 8.0
"""Standard deviations above the mean number of chosen tokens for which the head has room: one pass in 10^15 has more."""


def room(tokens: int, masks: Objective = masked, n: int = 1) -> int:
    """The number of tokens at which the head runs in a pass of `tokens` tokens in rows of n: a multiple of 64, or all of them."""
    if isinstance(masks, Masked):
        # The largest share of the whole run: a recording has the number built in.
        rate = max(masks.first, masks.last)
        mean, variance = rate, rate * (1 - rate)
    elif masks is diffused:  # whose rate is evenly distributed, one for each row
        mean, variance = 0.5 + LEAST, 1 / 6 + n / 12
    else:
        return tokens
    chosen = mean * tokens + DEVIATIONS * math.sqrt(variance * tokens)
    return min(tokens, -(-math.ceil(chosen) // 64) * 64)


class RecordedPasses:
    """Gradients of whole steps, pass by pass.

    Args:
        seed: of dropout.
        precision: `fp32` or `bf16`.
        losses: the inputs of a pass (input_ids (b, n), keys (b,), step () float64 and others) and the tokens that are computed →
            the sum of its losses, and other sums over it.
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
        # A tensor, because a recording has its numbers built in.
        step = torch.full((), index, dtype=torch.float64, device=self.device)
        # Copied at once: the next replay overwrites the outputs of this one.
        return torch.stack([torch.stack([x.double() for x in self.replay(part | {"step": step})]) for part in passes]).sum(0)

    def divide(self, number: Tensor | int) -> None:
        """The gradients by a number; one that only the device knows is a tensor, for which nothing waits."""
        grads = [p.grad for p in self.parameters if p.grad is not None]
        torch._foreach_div_(grads, number.to(grads[0].dtype) if isinstance(number, Tensor) else number)

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


class RecordedStep(RecordedPasses):
    """Those of a pre-training.

    Args:
        seed: of masks and dropout.
        masks: what is predicted.
        marks: the ids of the special tokens.
        vocabulary: of which random ids are drawn; None: all of the word table.
    """

    model: MaskedLM

    def __init__(
        self,
        model: MaskedLM,
        seed: int,
        precision: str,
        recorder: Recorder,
        masks: Objective = masked,
        marks: Marks = OURS,
        vocabulary: int | None = None,
    ) -> None:
        super().__init__(model, seed, precision, recorder, self._losses)
        self.masks, self.marks, self.vocabulary = masks, marks, vocabulary or model.encoder.embedding.words.num_embeddings

    def __call__(self, step: UnmaskedStep) -> dict[str, Tensor]:
        """Leaves the gradient of the mean loss in `grad`.

        Returns:
            Sums over the step, on the device: loss, correct, chosen, all by the weights of the rows where there are some, and how
            many chosen tokens found no room (`left_out`).
        """
        sums = self.sums(step.index, step.passes)
        self.divide(sums[2].clamp(min=1))
        return dict(zip(("loss", "correct", "chosen", "left_out"), sums, strict=True))

    def _losses(self, inputs: Inputs, held: Tokens) -> tuple[Tensor, ...]:
        ids, lengths = inputs["input_ids"], inputs["lengths"]
        predicted = self.masks(ids, lengths, inputs["keys"], self.seed, self.vocabulary, self.marks, inputs["step"])
        seen, labels, weights = predicted
        real = torch.arange(ids.shape[1], device=ids.device)[None, :] < lengths[:, None]
        places = room(ids.numel() if held.at is None else len(held.at), self.masks, ids.shape[1])
        loss, number, correct = self.model.loss_sum(seen, labels, real, room=places, weights=weights, held=held)
        return loss, correct, number if weights is None else predicted.chosen, (number - places).clamp(min=0)


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
