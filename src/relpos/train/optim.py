"""AdamW with the papers' parameter groups, and the schedule of its rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import nn

from relpos.errors import RelposError
from relpos.model.conv import Conv
from relpos.model.position import Scheme
from relpos.ranges import NotNegative, Positive, Rate


@dataclass(frozen=True)
class Recipe:
    """How weights are updated (Chang et al. 2021, Tables 4 and 5).

    Args:
        lr: the highest learning rate.
        warmup: steps of linear warm-up, as a count (1 or more) or as a share of the steps.
        clip: the largest norm of the gradient of all parameters together.
        position_lr: multiplies the learning rate of the parameters of position scheme and convolution. AdamW moves a weight by
            about the sum of the learning rates, whatever the gradient, and biases of scores have farther to go than weights of
            matrices: in a short run they cannot get there at the rate of all others. 1 in the papers. A list has one factor
            for each part of a merge or of a list by layers, in their order.
        conv_lr: the same for the convolution alone; None: `position_lr` counts for it too, if it is one number.
        schedule: `linear`: after the warm-up the rate falls linearly to 0, as in the papers. `wsd` (warm-up, stable, decay; Hu et
            al. 2024, MiniCPM): it stays at `lr` and falls linearly to 0 over the last steps. Until then the length of the run does
            not matter, so that runs of several lengths share that part, see `relpos.runs.trunk`.
        decay: steps over which `wsd` falls, as a count (1 or more) or as a share of the steps.
    """

    lr: NotNegative
    warmup: NotNegative
    weight_decay: NotNegative = 0.01
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    eps: NotNegative = 1e-6
    clip: Positive = 1.0
    position_lr: Positive | Sequence[Positive] = 1.0
    conv_lr: Positive | None = None
    schedule: Literal["linear", "wsd"] = "linear"
    decay: NotNegative = 0.2

    @classmethod
    def of(cls, recipe: Mapping[str, Any]) -> Recipe:
        """The recipe in a run's configuration or meaning, which may have further keys, such as `batch`."""
        return cls(**{field.name: recipe[field.name] for field in fields(cls) if field.name in recipe})

    def warmup_steps(self, steps: int) -> int:
        """Steps of warm-up in a run of `steps`."""
        return int(self.warmup if self.warmup >= 1 else self.warmup * steps)

    def decay_start(self, steps: int) -> int:
        """The step of a run of `steps` from which on the rate falls."""
        warmup = self.warmup_steps(steps)
        if self.schedule == "linear":
            return warmup
        return max(warmup, steps - int(self.decay if self.decay >= 1 else self.decay * steps))

    def travel(self, steps: int) -> float:
        """About the sum of the learning rates: how far Adam moves a parameter, at most."""
        if self.schedule == "linear":
            return self.lr * steps / 2
        return self.lr * (steps + self.decay_start(steps) - self.warmup_steps(steps)) / 2

    def optimizer(self, model: nn.Module) -> torch.optim.AdamW:
        """AdamW; biases and norms are exempt from decay, tables, kernels and convolution taps are not.

        Differs from the authors' code: eps is added after the bias correction, as PyTorch does.

        Raises:
            RelposError: `position_lr` is a list that does not fit the position scheme, or leaves the convolution without a factor.
        """
        exempt = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm | nn.RMSNorm) for p in m.parameters()}
        exempt |= {id(p) for name, p in model.named_parameters() if name.endswith("bias")}
        multiplier = self._multipliers(model)
        groups = [
            {
                "params": [p for p in model.parameters() if (id(p) in exempt, multiplier.get(id(p), 1)) == (without_decay, times)],
                "weight_decay": 0.0 if without_decay else self.weight_decay,
                "lr": self.lr * times,
            }
            for times in dict.fromkeys((1, *multiplier.values()))  # at 1 the groups, and so the optimiser's state, are the papers'
            for without_decay in (False, True)
        ]
        groups = [group for group in groups if group["params"]]
        beta1, beta2 = self.betas
        return torch.optim.AdamW(groups, lr=self.lr, betas=(beta1, beta2), eps=self.eps, fused=True)

    def _multipliers(self, model: nn.Module) -> dict[int, float]:
        """Id of a parameter of position scheme or convolution → the factor of its rate."""
        schemes, convs = ([m for m in model.modules() if isinstance(m, kind)] for kind in (Scheme, Conv))
        parts: list[nn.Module] = list(schemes[:1])  # the first holds all others
        of_convs = [p for conv in convs for p in conv.parameters()]
        if isinstance(self.position_lr, Sequence):
            parts, rates = list(getattr(parts[0], "parts", parts)) if parts else [], list(self.position_lr)
            if len(rates) != len(parts):
                raise RelposError(
                    f"recipe.position_lr={rates}: a list of {len(parts)}, one for each part of the scheme, is expected"
                )
            if of_convs and self.conv_lr is None:
                raise RelposError(f"recipe.position_lr={rates}: the convolution needs a rate of its own, recipe.conv_lr")
            conv_lr = self.conv_lr or 1.0
        else:
            rates = [self.position_lr] * len(parts)
            conv_lr = self.position_lr if self.conv_lr is None else self.conv_lr
        times = {id(p): rate for part, rate in zip(parts, rates, strict=True) for p in part.parameters()}
        return times | {id(p): conv_lr for p in of_convs}

    def scheduler(self, optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
        """Linear from 0 (the first update) to `lr`, which stays until `decay_start`, then linear to 0 at the last step."""
        warmup, start = self.warmup_steps(steps), self.decay_start(steps)

        def factor(step: int) -> float:
            if step < start:
                return min(1.0, step / max(1, warmup))
            return max(0.0, (steps - step) / max(1, steps - start))

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
