"""AdamW with the papers' parameter groups, or Muon beside it, and the schedule of the rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from relpos.data.objective import Masking
from relpos.errors import RelposError
from relpos.model.architecture import ClassifierKind
from relpos.model.conv import Conv
from relpos.model.encoder import Layer
from relpos.model.position import Scheme
from relpos.ranges import Batch, Count, NotNegative, Positive, Rate
from relpos.readers import Plain


@dataclass(frozen=True)
class Recipe:
    """How weights are updated (Chang et al. 2021, Tables 4 and 5).

    Args:
        lr: the highest learning rate.
        warmup: steps of linear warm-up, as a count (1 or more) or as a share of the steps.
        clip: the largest norm of the gradient of all parameters together.
        position_lr: multiplies the learning rate of the parameters of position scheme and
            convolution. AdamW moves a weight by about the sum of the learning rates, whatever the
            gradient, and biases of scores have farther to go than weights of
            matrices: in a short run they cannot get there at the rate of all others. 1 in the
            papers. A list has one factor for each part of a merge or of a list by layers, in their
            order.
        conv_lr: the same for the convolution alone; None: `position_lr` counts for it too, if it is
            one number.
        schedule: `linear`: after the warm-up the rate falls linearly to 0, as in the papers. `wsd`
            (warm-up, stable, decay; Hu et al. 2024, MiniCPM): it stays at `lr` and falls linearly
            to 0 over the last steps. Until then the length of the run does not matter, so that runs
            of several lengths share that part, see `relpos.runs.trunk`.
        optimizer: `adamw`, as in the papers. `muon`: the weights of the layers' linear maps move by
            Muon (Jordan et al. 2024), all other parameters by AdamW. See `MuonAndAdamW`.
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
    optimizer: Literal["adamw", "muon"] = "adamw"
    schedule: Literal["linear", "wsd"] = "linear"
    decay: NotNegative = 0.2

    @classmethod
    def of(cls, recipe: Plain) -> Recipe:
        """The recipe in a run's configuration or meaning, which may have further keys, such as
        `batch`."""
        return cls(
            **{field.name: recipe[field.name] for field in fields(cls) if field.name in recipe}
        )

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
        return self.lr * (steps + self.decay_start(steps) - self.warmup_steps(steps)) / 2

    def optimizer_of(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser of a network's parameters. Biases and norms are exempt from decay, tables,
        kernels and convolution taps are not.

        Differs from the authors' code: eps is added after the bias correction, as PyTorch does.

        Raises:
            RelposError: as `multipliers`.
        """
        multiplier = self.multipliers(model)
        matrices = self.matrices(model)
        # By id: tensors compare element by element.
        by_muon = {*map(id, matrices)}
        # at 1 the groups, and so the optimiser's state, are the papers'
        groups: dict[tuple[float, bool], Plain] = {}
        for times in (1, *multiplier.values()):
            for decays in (True, False):
                rates = {"weight_decay": self.weight_decay * decays, "lr": self.lr * times}
                groups.setdefault((times, decays), {"params": [], **rates})
        for name, p in model.named_parameters():
            module = model.get_submodule(name.rpartition(".")[0])
            # Names, because a bias is also a parameter of modules that are no linear maps.
            decays = not (isinstance(module, nn.LayerNorm | nn.RMSNorm) or name.endswith("bias"))
            if id(p) not in by_muon:
                groups[multiplier.get(id(p), 1), decays]["params"].append(p)
        adamw = torch.optim.AdamW(
            [group for group in groups.values() if group["params"]],
            lr=self.lr,
            betas=self.betas,
            eps=self.eps,
            fused=True,
        )
        # One optimiser: Lightning's `global_step` counts the steps of every optimiser, and a run
        # goes on at that step.
        return MuonAndAdamW(matrices, self.lr, self.weight_decay, adamw) if matrices else adamw

    def matrices(self, model: nn.Module) -> list[Tensor]:
        """What Muon moves: the weights of the linear maps in a network's layers, but for those of
        convolutions: q, k and v, which are one matrix, W_o, and those of the feed-forward
            network."""
        if self.optimizer != "muon":
            return []
        besides = self.multipliers(model)
        return [
            part.weight
            for layer in model.modules()
            if isinstance(layer, Layer)
            for part in layer.modules()
            if isinstance(part, nn.Linear) and id(part.weight) not in besides
        ]

    def multipliers(self, model: nn.Module) -> dict[int, float]:
        """Id of a parameter of position scheme or convolution → the factor of its rate.

        Raises:
            RelposError: `position_lr` is a list that does not fit the position scheme, or leaves
                the convolution without a factor.
        """
        # the first scheme holds all others
        parts: list[Any] = [m for m in model.modules() if isinstance(m, Scheme)][:1]
        conv_parameters = [
            p for m in model.modules() if isinstance(m, Conv) for p in m.parameters()
        ]
        conv_lr = self.conv_lr
        if isinstance(self.position_lr, Sequence):
            parts = [part for scheme in parts for part in getattr(scheme, "parts", parts)]
            rates = list(self.position_lr)
            if len(rates) != len(parts):
                raise RelposError(
                    f"recipe.position_lr={rates}: a list of {len(parts)}, one for each part of the "
                    f"scheme, is expected"
                )
            if conv_parameters and conv_lr is None:
                raise RelposError(
                    f"recipe.position_lr={rates}: the convolution needs a rate of "
                    f"its own, recipe.conv_lr"
                )
        else:
            rates = [self.position_lr] * len(parts)
            conv_lr = conv_lr or self.position_lr
        times = {
            id(p): rate for part, rate in zip(parts, rates, strict=True) for p in part.parameters()
        }
        return times | {id(p): conv_lr or 1.0 for p in conv_parameters}

    def scheduler(
        self,
        optimizer: torch.optim.Optimizer,
        steps: int,
    ) -> torch.optim.lr_scheduler.LambdaLR:
        """Linear from 0 (the first update) to `lr`, which stays until `decay_start`, then linear to
        0 at the last step."""
        warmup = self.warmup_steps(steps)
        start = self.decay_start(steps)

        # A factor and not a rate: each group keeps its own multiple.
        def factor(step: int) -> float:
            if step < start:
                return min(1.0, step / max(1, warmup))
            return max(0.0, (steps - step) / max(1, steps - start))

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@dataclass(frozen=True)
class RecipeKeys(Recipe):
    """A recipe with the defaults of keys at the top level, which need not be used."""

    steps: Count | None = None
    epochs: Positive | None = None
    batch: Batch = 1
    head: ClassifierKind = "plain"
    masking: Masking = "bert"


class MuonAndAdamW(torch.optim.Optimizer):
    """torch's Muon for some matrices and its AdamW for all other parameters, as one optimiser with
    one state.

    Muon (Jordan et al. 2024): B ← μB + (1 − μ)G; the step is along O, the semi-orthogonal matrix
    that five steps of Newton and Schulz's iteration make of (1 − μ)G + μB, μ = 0.95. It is
    multiplied by the rate and 0.2 √max(rows, columns) (Liu et al. 2025, "Muon is scalable for LLM
    training"), so that numbers move about as far as by AdamW: one rate and one decay serve both.

    Args:
        matrices: two-dimensional.
        lr: the highest rate of the matrices.
        weight_decay: of the matrices.
        adamw: with the other parameters in its groups.
    """

    def __init__(
        self,
        matrices: list[Tensor],
        lr: float,
        weight_decay: float,
        adamw: torch.optim.AdamW,
    ) -> None:
        muon = torch.optim.Muon(
            matrices,
            lr=lr,
            weight_decay=weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        self.both: list[torch.optim.Optimizer] = [muon, adamw]
        super().__init__([group for inner in self.both for group in inner.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Both updates; the result of `closure`, which is called before them."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        # Assigned at each step: a checkpoint that was loaded has replaced the groups.
        groups = [self.param_groups[:1], self.param_groups[1:]]
        for inner, own in zip(self.both, groups, strict=True):
            inner.param_groups, inner.state = own, self.state
            inner.step()
        return loss
