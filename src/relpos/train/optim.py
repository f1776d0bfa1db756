"""AdamW with the papers' parameter groups, and the linear schedule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

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
            matrices: in a short run they cannot get there at the rate of all others. 1 in the papers.
        conv_lr: the same for the convolution alone; None: `position_lr` counts for it too.
    """

    lr: NotNegative
    warmup: NotNegative
    weight_decay: NotNegative = 0.01
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    eps: NotNegative = 1e-6
    clip: Positive = 1.0
    position_lr: Positive = 1.0
    conv_lr: Positive | None = None

    def warmup_steps(self, steps: int) -> int:
        """Steps of warm-up in a run of `steps`."""
        return int(self.warmup if self.warmup >= 1 else self.warmup * steps)

    def optimizer(self, model: nn.Module) -> torch.optim.AdamW:
        """AdamW; biases and LayerNorms are exempt from decay, tables, kernels and convolution taps are not.

        Differs from the authors' code: eps is added after the bias correction, as PyTorch does.
        """
        exempt = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
        exempt |= {id(p) for name, p in model.named_parameters() if name.endswith("bias")}
        of_kind = {Scheme: self.position_lr, Conv: self.position_lr if self.conv_lr is None else self.conv_lr}
        multiplier = {
            id(p): value for kind, value in of_kind.items() for m in model.modules() if isinstance(m, kind) for p in m.parameters()
        }
        groups = [
            {
                "params": [p for p in model.parameters() if (id(p) in exempt, multiplier.get(id(p), 1)) == (without_decay, times)],
                "weight_decay": 0.0 if without_decay else self.weight_decay,
                "lr": self.lr * times,
            }
            for times in dict.fromkeys(
                (1, *of_kind.values())
            )  # at 1 the groups, and with them the optimiser's state, are the papers'
            for without_decay in (False, True)
        ]
        groups = [group for group in groups if group["params"]]
        beta1, beta2 = self.betas
        return torch.optim.AdamW(groups, lr=self.lr, betas=(beta1, beta2), eps=self.eps, fused=True)

    def schedule(self, optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
        """Linear from 0 (the first update) to `lr`, then linear to 0 at the last step."""
        warmup = self.warmup_steps(steps)

        def factor(step: int) -> float:
            return step / max(1, warmup) if step < warmup else max(0.0, (steps - step) / max(1, steps - warmup))

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
