"""All position schemes and convolutions, found by looking: a preset that gets a file in `conf` gets
the tests."""

import os
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import cache, partial
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.testing import assert_close

import reference
from relpos.config.conf import conf_dir
from relpos.errors import RelposError
from relpos.model.architecture import Architecture, Size
from relpos.model.build import assembled
from relpos.model.conv import Conv, NoConv
from relpos.model.heads import MaskedLM
from relpos.model.kernels import eager
from relpos.model.position import Position, Scheme
from relpos.model.position.base import Input
from relpos.model.shape import Shape
from relpos.model.tokens import Tokens
from relpos.trust import constructor

# set by .ci/run: full crosses of presets, which take minutes
FULL = bool(os.environ.get("RELPOS_FULL"))
SIZE: dict[str, Any] = {
    "layers": 2, "hidden": 8, "embedding": 6, "heads": 2, "ffn": 12, "max_positions": 16, "dropout": 0.1, "attention_dropout": 0.1,
    "activation": "gelu", "norm_eps": 1e-12, "token_types": 2, "share_layers": False, "attention": "bidirectional",
}  # fmt: skip
MODERN: dict[str, Any] = {
    "norm_first": True, "norm": "rms", "glu": True, "bias": False, "qk_norm": True,
}  # fmt: skip
"""The choices of a layer of 2024."""
SHAPE = Shape.example()
VOCABULARY = 23
DIALS: dict[str, Any] = {"k": 2, "outside": "clamp", "kernels": 2}
BASES: dict[str, type[Any]] = {"position": Scheme, "conv": Conv}


def presets(group: str) -> list[str]:
    """The options of `position` or `conv` that are complete in themselves."""
    files = sorted((conf_dir() / group).glob("*.yaml"))
    return [file.stem for file in files if "???" not in file.read_text(encoding="utf-8")]


POSITIONS, CONVS = presets("position"), presets("conv")
SAMPLE = {
    "none", "absolute", "composite_key", "cope", "deberta", "dual_triangle", "fox", "modernbert", "pope", "randomized", "shaw",
    "synthesizer_dense", "window", "xl", "canon", "convbert", "depthwise", "qkv",
}  # fmt: skip
"""Presets that between them come into the attention in every way: for laws that follow for the
others from code that is shared."""


def sampled(names: list[str]) -> list[str]:
    """The names in SAMPLE; all with RELPOS_FULL=1."""
    return [name for name in names if FULL or name in SAMPLE]


def node(group: str, name: str, **changes: Any) -> dict[str, Any]:
    """The settings of a preset, with the dials as above; `changes` turn dials or replace the
    preset's own keys."""
    settings = _settings(
        group, name, **{key: changes.pop(key, value) for key, value in DIALS.items()}
    )
    assert changes.keys() <= settings.keys(), (
        f"{name} has no {sorted(changes.keys() - settings.keys())}"
    )
    return {**deepcopy(settings), **changes}


@cache
def _settings(group: str, name: str, **dials: Any) -> Any:
    cfg = OmegaConf.create(dials | {group: OmegaConf.load(conf_dir() / group / f"{name}.yaml")})
    return OmegaConf.to_container(cfg[group], resolve=True)


def reads(group: str, name: str, dial: str) -> bool:
    return f"${{{dial}}}" in (conf_dir() / group / f"{name}.yaml").read_text(encoding="utf-8")


def variants(group: str, name: str) -> list[dict[str, Any]]:
    """The preset as it is, with every switch of its own turned the other way, and beyond its window
    the other way."""
    changes: list[dict[str, Any]] = [{}]
    for key, value in node(group, name).items():
        if isinstance(value, bool) and key[0] != "_":
            changes.append({key: not value})
    return changes + [{"outside": "zero"}] * reads(group, name, "outside")


def preset(group: str, name: str, **changes: Any) -> Any:
    """A callable of the shape."""
    return constructor(node(group, name, **changes), group)


def cases(group: str, names: list[str]) -> list[Any]:
    """Every preset with every variant, for `parametrize`."""
    return [
        pytest.param(name, keys, id=f"{name}{keys or ''}")
        for name in names
        for keys in variants(group, name)
    ]


def build(
    size: dict[str, Any],
    position: Position,
    vocabulary: int,
    conv: Any = None,
    kernel: Any = "auto",
) -> Any:
    """A masked language model of classes, with the weights that follow from torch's present seed."""
    return assembled(Architecture(Size(**size), {}, {}, vocabulary), position, conv, kernel)


def network(
    position: Position,
    conv: Any = NoConv,
    *,
    kernel: str = "auto",
    seed: int = 0,
    spread: float = 0.5,
    vocabulary: int = VOCABULARY,
    **size: Any,
) -> MaskedLM:
    """A tiny float64 model whose parameters, biases too, are all away from zero. `size` replaces
    what SIZE says."""
    torch.manual_seed(seed)
    model: MaskedLM = build({**SIZE, **size}, position, vocabulary, conv, kernel).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64), alpha=spread)
    return model


def model_of(
    position: str = "none",
    conv: str = "none",
    *,
    conv_keys: dict[str, Any] | None = None,
    **keys: Any,
) -> MaskedLM:
    """The `network` of presets. `keys` are arguments of `network`, keys of SIZE or of the
    scheme."""
    try:
        model = deepcopy(
            _model_of(
                position, conv, *(tuple(sorted(dials.items())) for dials in (conv_keys or {}, keys))
            )
        )
    except TypeError:  # a list among the keys
        model = _model_of.__wrapped__(position, conv, (conv_keys or {}).items(), keys.items())
    # what is drawn afterwards is the same whether the model was built now or copied
    torch.manual_seed(keys.get("seed", 0))
    return model


@cache
def _model_of(
    position: str, conv: str, conv_keys: Iterable[tuple[str, Any]], more: Iterable[tuple[str, Any]]
) -> MaskedLM:
    """The network before it is copied: most laws look at the same network of a preset."""
    keys = dict(more)
    own = {
        key: keys.pop(key)
        for key in list(keys)
        if key in SIZE or key in ("kernel", "seed", "spread", "vocabulary")
    }
    return network(
        preset("position", position, **keys), preset("conv", conv, **dict(conv_keys)), **own
    )


def check_loops(
    *encoders: Any,
    ids: Sequence[int] = (7, 9, 5, 0, 12),
    real: Sequence[bool] = (True, True, True, False, True),
    types: list[int] | None = None,
    gradients: bool = True,
) -> None:
    """Outputs at real tokens and gradients of the encoders, which differ in their kernel, equal
    those of `reference`'s loops. Of five tokens one in the middle is padding."""
    ids, real, types = [*ids], [*real], types or [0] * len(ids)
    passes = [
        encoder(torch.tensor([ids]), torch.tensor([real]), torch.tensor([types]))[0]
        for encoder in encoders
    ]
    results = []
    for hidden, encoder in zip(
        (reference.encode(encoders[0], ids, real, types), *passes),
        encoders[:1] + encoders,
        strict=True,
    ):
        seen, parameters = hidden[real], list(encoder.parameters())
        grads = (
            torch.autograd.grad(
                seen.sin().sum(), parameters, allow_unused=True, materialize_grads=True
            )
            if gradients
            else ()
        )
        results.append([seen.detach(), *grads])
    for result in results[1:]:
        assert_close(result, results[0], atol=1e-10, rtol=1e-8)


near = partial(assert_close, atol=1e-11, rtol=1e-9)
"""Asserts that two results in float64 differ by the order of their sums alone."""


def check_padding(encoder: Any) -> None:
    """What stands at padding, how much of it there is, and other rows do not reach a row's tokens."""
    ids, mask = batch(n=8)  # row 1 has 5 real tokens
    expected, other = encoder(ids, mask)[1, :5], ids.clone()
    other[1, 5:], other[0] = 11, 6
    for hidden in (
        encoder(other, mask)[1, :5],
        encoder(pad(ids, (0, 6), value=3), pad(mask, (0, 6)))[1, :5],
        encoder(ids[1:, :5])[0],
    ):
        near(hidden, expected)


def adds_nothing(model: MaskedLM, plain: MaskedLM, part: str) -> None:
    """The network equals, to the last bit, one that lacks the weights with `part` in their names,
    and has the others."""
    weights = {name: x for name, x in model.state_dict().items() if part not in name}
    plain.load_state_dict(weights)
    ids, mask = batch()
    assert torch.equal(model.eval()(ids, mask), plain.eval()(ids, mask))


def refusal(function: Callable[..., Any], *arguments: Any, **keys: Any) -> str:
    """The one line that says why a call is refused."""
    with pytest.raises(RelposError) as error:
        function(*arguments, **keys)
    assert "\n" not in str(error.value)
    return str(error.value)


def filled(module: Any, value: float) -> Any:
    """A module in float64, all its parameters of one value."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(value)
    return module.double()


def gradients_of(*modules: nn.Module) -> list[Tensor]:
    """The gradients of all parameters that have one."""
    parameters = (parameter for module in modules for parameter in module.parameters())
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def is_counted(part: Any, shape: Shape = SHAPE) -> bool:
    """Whether a scheme or a convolution has as many parameters as its formula says."""
    return part.count(shape) == sum(parameter.numel() for parameter in part.parameters())


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers in float64."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def given(shape: Shape, batch: int, n: int, seed: int = 4) -> Input:
    """A layer's input: random numbers, all tokens real, random maps."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, n, shape.hidden, generator=generator).double()
    maps = torch.randn(2, shape.hidden, shape.heads * shape.head_dim, generator=generator).double()
    return Input(x, Tokens(batch, n), None, lambda rows: {"q": rows @ maps[0], "k": rows @ maps[1]})


def added(scheme: Any, seen: Input) -> Tensor:
    """What a scheme adds to the scores (B, H, n, n) of layer 1 where queries and keys are zero."""
    batch, n, _ = seen.x.shape
    q = torch.zeros(batch, SHAPE.heads, n, SHAPE.head_dim).to(seen.x)
    terms = scheme.terms(1, q, q, scheme.see(1, seen, scheme.prepare(n)))
    return eager.scores(None, None, terms, q)


def batch(rows: int = 2, n: int = 9, seed: int = 1) -> tuple[Tensor, Tensor]:
    """(ids, mask): random tokens; row 1 has three tokens of padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCABULARY, (rows, n), generator=generator)
    mask = torch.ones(rows, n, dtype=torch.int64)
    if rows > 1:
        mask[1, -3:], ids[1, -3:] = 0, 0
    return ids, mask
