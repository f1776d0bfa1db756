"""The step of a pre-training on a GPU: masks, places of predicted tokens and dropout are drawn on the device, passes are replayed.

Results are those of the plain step to rounding. The CPU never waits for the device: gradients of the summed losses are divided by
the number of chosen tokens only at the end, because that number is known to the device alone; and the language model's head runs at
a fixed number of tokens, the chosen ones among them, so that nothing has to be counted before the pass is launched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from relpos.counter import fold
from relpos.data.marks import OURS, Marks
from relpos.data.masking import IGNORED, RATE
from relpos.data.objective import Masked, Objective, masked
from relpos.data.steps import UnmaskedStep
from relpos.model.dropout import seed_dropout
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast, cast_together
from relpos.model.recorded_keys import RecordedKeys
from relpos.model.tokens import Tokens
from relpos.train.replay import Inputs, Recorder, Replay

DEVIATIONS = 8.0
"""Standard deviations above the mean number of chosen tokens for which the head has room: one pass in 10^15 has more."""


def room(tokens: int, rate: float = RATE) -> int:
    """The number of tokens at which the head runs in a pass of `tokens` tokens: a multiple of 64, or all of them."""
    chosen = rate * tokens + DEVIATIONS * math.sqrt(rate * (1 - rate) * tokens)
    return min(tokens, -(-math.ceil(chosen) // 64) * 64)


class RecordedStep:
    """Gradients of whole steps, pass by pass.

    Args:
        seed: of masks and dropout.
        precision: `fp32` or `bf16`.
        masks: what is predicted.
        marks: the ids of the special tokens.
        vocabulary: of which random ids are drawn; None: all of the word table.
    """

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
        # The largest share of the whole run: a recording has the number of tokens at which the head runs built in.
        self.masks, self.most = masks, max(masks.first, masks.last) if isinstance(masks, Masked) else 1.0
        self.model, self.seed, self.precision = model, seed, precision
        self.marks, self.vocabulary = marks, vocabulary or model.encoder.embedding.words.num_embeddings
        self.device = next(model.parameters()).device
        self.keys = RecordedKeys(self.device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.multiplied = dict(_multiplied(model)) if precision == "bf16" else {}
        self.replay = Replay(self._pass, {name: p for name, p in model.named_parameters() if p.requires_grad}, recorder)

    def __call__(self, step: UnmaskedStep) -> dict[str, Tensor]:
        """Leaves the gradient of the mean loss in `grad`.

        Returns:
            Sums over the step, on the device: loss, correct, chosen, all by the weights of the rows where there are some, and how
            many chosen tokens found no room (`left_out`).
        """
        self.keys.fill(fold(self.seed, step.index))
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        # A tensor, because a recording has its numbers built in.
        index = torch.full((), step.index, dtype=torch.float64, device=self.device)
        for inputs in step.passes:
            # Added at once: the next replay overwrites the outputs of this one.
            sums += torch.stack([value.double() for value in self.replay(inputs | {"step": index})])
        grads = [p.grad for p in self.parameters if p.grad is not None]
        # By a tensor: a number would have to be read back from the device.
        torch._foreach_div_(grads, sums[2].clamp(min=1).to(grads[0].dtype))
        return dict(zip(("loss", "correct", "chosen", "left_out"), sums, strict=True))

    def zero_gradients(self) -> None:
        """In place: recordings add to them where they are."""
        torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])

    def _pass(self, inputs: Inputs) -> tuple[Tensor, ...]:
        ids, lengths, keys = inputs["input_ids"], inputs["lengths"], inputs["keys"]
        held = Tokens(len(ids), ids.shape[1], inputs.get("held"))
        predicted = self.masks(ids, lengths, keys, self.seed, self.vocabulary, self.marks, inputs["step"])
        seen, labels, weights = predicted
        real = torch.arange(ids.shape[1], device=ids.device)[None, :] < lengths[:, None]
        seed_dropout(self.model, self.keys, keys)
        places = room(ids.numel() if held.at is None else len(held.at), self.most)
        with autocast(self.precision, self.device):
            cast = cast_together(self.multiplied, torch.bfloat16) if self.multiplied else {}
            given, options = (seen, labels, real), {"room": places, "weights": weights, "held": held}
            loss, _, correct = functional_call(_LossSum(self.model), cast, given, options)
        # One addition for all parameters, and not one for each.
        grads = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        reached = [(p, grad) for p, grad in zip(self.parameters, grads, strict=True) if grad is not None]
        for p, grad in reached:
            p.grad = torch.zeros_like(grad) if p.grad is None else p.grad
        torch._foreach_add_([p.grad for p, _ in reached], [grad for _, grad in reached])
        return loss.detach(), correct, predicted.chosen, ((labels != IGNORED).sum() - places).clamp(min=0)


class _LossSum(nn.Module):
    """`MaskedLM.loss_sum` as a module's forward pass, which `functional_call` needs."""

    def __init__(self, model: MaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: Any, **options: Any) -> tuple[Tensor, ...]:
        return self.model.loss_sum(*given, **options)


def _multiplied(model: MaskedLM) -> Iterator[tuple[str, nn.Parameter]]:
    """What is multiplied in bfloat16, by its name in `_LossSum`. Schemes and convolutions choose their number formats themselves, and
    bias + GELU adds its bias in float32."""
    for name, module in model.named_modules(prefix="model"):
        if isinstance(module, nn.Linear) and not {"position", "conv"} & set(name.split(".")) and module.weight.dtype == torch.float32:
            yield f"{name}.weight", module.weight
            if module.bias is not None and not name.endswith(".widen"):
                yield f"{name}.bias", module.bias
