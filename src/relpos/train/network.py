"""The network of a composed configuration, without touching data; and new heads on its encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.overrides import TorchFunctionMode

from relpos.errors import RelposError
from relpos.model.build import WEIGHTS
from relpos.model.encoder import encoder_of
from relpos.model.heads import Classifier, ClassifierKind, MaskedLM
from relpos.model.initial import describe, redraw
from relpos.train.described import network

MOST = 10**13
"""Parameters; a network of more is a typing mistake."""


def build_model(cfg: DictConfig | Mapping[str, Any]) -> MaskedLM:
    """The network that `size`, `position`, `conv` and `vocabulary` describe.

    Raises:
        RelposError: position scheme and convolution do not go together; the line names them.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True) if isinstance(cfg, DictConfig) else cfg
    model: MaskedLM = network({key: config[key] for key in ("size", "position", "conv", "vocabulary")})
    return model


def classifier_on(model: nn.Module, outputs: int, dropout: float, kind: ClassifierKind = "plain") -> Classifier:
    """A new classifier on a pre-trained or fine-tuned encoder, drawn from torch's present seed.

    The pooler of an intermediate task, or of a published checkpoint, is kept; the output layer is new, as in the authors' code.
    """
    # Drawn before the classifier is built, so that it does not depend on how many numbers that draws.
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    encoder = encoder_of(model)
    # The classifier has one of its own: two would be stored, and one of them never read.
    pooler, encoder.pooler = encoder.pooler, None
    new = Classifier(encoder, outputs, dropout, kind)
    redraw(((name, parameter) for name, parameter in new.named_parameters() if not name.startswith("encoder.")), seed)
    if isinstance(model, Classifier):
        pooler = model.pooler
    if pooler is not None:
        new.pooler.load_state_dict(pooler.state_dict())
    return new


def masked_lm_on(model: nn.Module) -> MaskedLM:
    """The model itself if it is a masked language model; otherwise its encoder with a new head, drawn from torch's present seed."""
    encoder = encoder_of(model)
    encoder.pooler = None  # nothing would train it
    if isinstance(model, MaskedLM):
        return model
    seed = int(torch.randint(1 << 62, (), device="cpu"))
    new = MaskedLM(encoder)
    describe(new.head.narrow.weight, WEIGHTS)
    if new.head.narrow.bias is not None:
        nn.init.zeros_(new.head.narrow.bias)
    redraw(((name, parameter) for name, parameter in new.named_parameters() if name.startswith("head.")), seed)
    return new


@contextmanager
def without_memory() -> Iterator[None]:
    """Networks made inside this context have shapes but no values. Sizes that no tensor can have raise RelposError."""
    try:
        with torch.device("meta"), _Undrawn():
            yield
    except (RuntimeError, OverflowError) as error:
        if "verflow" not in str(error):
            raise
        raise RelposError(f"more than {MOST:.0e} parameters: too many to count") from error


class _Undrawn(TorchFunctionMode):
    """`normal_` does nothing: on the meta device it would import torch's compiler, which takes two seconds."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.nn.init.normal_:
            return kwargs["tensor"]
        return args[0] if function is torch.Tensor.normal_ else function(*args, **kwargs)
