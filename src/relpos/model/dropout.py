"""Dropout whose masks are a pure function of a seed.

A mask is an integer hash of (seed, place in the model, pass through the layer, example, head,
token, channel or other token): the same bits on every device and in every kernel, whatever else has
drawn random numbers. An example has the same mask in any batch and with any padding, so that masks
do not depend on how a step is cut into forward passes.

On a CPU it costs a tenth of `bernoulli_`: one 64-bit word decides four elements. Each gets 15 bits,
so a rate is a multiple of 1/32768 (0.1 becomes 0.100006; kept elements are rescaled for this exact
rate).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int16, Int64
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from relpos.counter import counter_hash, fold, signed
from relpos.model.tokens import Tokens

_LEVELS = 1 << 15
_LANES = 0x0001_0001_0001_0001
# odd, 2^64 / golden ratio: multiplying by it spreads every bit upwards
_FACTOR = -0x61C8_8646_80B5_83EB
_INTEGER = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a floating-point number


def threshold(p: float) -> int:
    """For how many of the 32,768 values of 15 bits an element is dropped."""
    # Never all of them: what is kept would be multiplied by infinity.
    return min(round(p * _LEVELS), _LEVELS - 1)


def rescale(p: float) -> float:
    """The factor of a kept element."""
    return _LEVELS / (_LEVELS - threshold(p))


class Examples:
    """Which example stands in each row of a batch.

    Args:
        keys: (B,) int64; what an example drops depends on its key and not on its row.
    """

    def __init__(self, keys: Int64[Tensor, "batch"]) -> None:
        self.keys = keys
        self._tokens: dict[int, Tensor] = {}
        self._of_tokens: WeakKeyDictionary[Tokens, Tensor] = WeakKeyDictionary()

    def tokens(self, n: int) -> Int64[Tensor, "batch n"]:
        """(B, n) a well-mixed word for each of the first n tokens of each example; computed once
        for all places of a model."""
        if n not in self._tokens:
            self._tokens[n] = counter_hash(
                self.keys[:, None],
                torch.arange(n, device=self.keys.device),
            )
        return self._tokens[n]

    def of_tokens(self, tokens: Tokens, at: Int64[Tensor, "tokens"]) -> Int64[Tensor, "tokens"]:
        """(T,) the words of some tokens of the batch; taken once for all places of a model."""
        if tokens not in self._of_tokens:
            self._of_tokens[tokens] = self.tokens(tokens.n).flatten().index_select(0, at)
        return self._of_tokens[tokens]


@lru_cache(maxsize=4)
def _rows_as_examples(batch: int, device: torch.device) -> Examples:
    return Examples(torch.arange(batch, device=device))


class Draw(NamedTuple):
    """What decides one use of dropout. Without `examples` the rows of the batch count as examples
    0, 1, …

    With `tokens` the tensor holds only these tokens of the batch: (T, C), where each has the mask
    that it has among all.
    """

    rate: float
    key: int | Tensor
    examples: Examples | None = None
    tokens: Tokens | None = None

    def beside(self) -> Draw:
        """Another draw of the same pass."""
        return self._replace(
            key=counter_hash(self.key, 1) if isinstance(self.key, Tensor) else fold(self.key, 1)
        )


# not an LRU cache: a recorded forward pass reads these tensors by their address, so they must stay
# alive
@cache
def axis_words(count: int, device: torch.device) -> Tensor:
    """(count,) well-mixed words, one for each place along an axis: what the words of rows are mixed
    with for heads and columns."""
    return counter_hash(0, torch.arange(count, device=device))


def _stir_(words: Tensor) -> Tensor:
    words.mul_(_FACTOR)
    return words.bitwise_xor_((words >> 32).bitwise_and_(0xFFFF_FFFF))


def unmixed(shape: torch.Size, draw: Draw, device: torch.device) -> tuple[Tensor, Tensor]:
    """What a kernel draws the masks of a shape (..., C) without heads from: a word for each token,
    of (B, C) for each example, or for each of the draw's tokens, still to be mixed with the draw's
    key, and one for every four columns (C / 4,)."""
    tokens = draw.tokens
    examples = draw.examples or _rows_as_examples(
        shape[0] if tokens is None else tokens.batch, device
    )
    if tokens is not None and tokens.at is not None:
        of_rows = examples.of_tokens(tokens, tokens.at)
    else:
        of_rows = examples.tokens(shape[-2] if len(shape) > 2 else 1)
        of_rows = of_rows[:, 0] if len(shape) == 2 else of_rows
    return of_rows, axis_words((shape[-1] + 3) // 4, device)


def words(
    shape: torch.Size | tuple[int, ...],
    draw: Draw,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """What `dropped` mixes: a word for each row of a mask of this shape (..., C), and one for every
    four columns (C / 4,)."""
    shape = torch.Size(shape)
    of_rows, of_columns = unmixed(shape, draw, device)
    if len(shape) == 4:
        of_rows = of_rows[:, None] ^ axis_words(shape[1], device)[:, None]
    return _stir_(of_rows ^ draw.key), of_columns


def dropped(
    shape: torch.Size | tuple[int, ...],
    draw: Draw,
    device: torch.device,
) -> Int16[Tensor, "..."]:
    """int16 of this shape, negative where the element is dropped.

    Args:
        shape: (B, C), (B, tokens, C), (B, heads, tokens, C), or (T, C) of the draw's tokens.
            Element c of a row is 16-bit lane c mod 4 of its word c div 4.
    """
    of_rows, of_columns = words(shape, draw, device)
    mixed = _stir_(of_rows[..., None] ^ of_columns)
    # In each lane, 2^15 + threshold - 1 - x has its sign bit set just where x < threshold, and
    # borrows nothing from the next.
    mixed.bitwise_and_(0x7FFF * _LANES).neg_().add_(
        signed((_LEVELS + threshold(draw.rate) - 1) * _LANES)
    )
    return mixed.view(torch.int16)[..., : shape[-1]]


def keep_bits(
    shape: torch.Size | tuple[int, ...],
    draw: Draw,
    device: torch.device,
) -> Int16[Tensor, "..."]:
    """int16 of this shape: all bits set where the element is kept, none where it is dropped."""
    return dropped(shape, draw, device).bitwise_right_shift_(15).bitwise_not_()


def zero_dropped(
    x: Float[Tensor, "*shape"],
    bits: Int16[Tensor, "*shape"],
) -> Float[Tensor, "*shape"]:
    """x where `keep_bits` are set, else 0. An integer AND: multiplying by a bool tensor would first
    turn that into x's type."""
    return x.view(_INTEGER[x.element_size()]).bitwise_and(bits).view(x.dtype)


class _Drop(torch.autograd.Function):
    """x · mask · rescale."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, draw: Draw) -> Tensor:
        bits = keep_bits(x.shape, draw, x.device)
        ctx.save_for_backward(bits)
        ctx.rescale = rescale(draw.rate)
        return zero_dropped(x, bits).mul_(ctx.rescale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return zero_dropped(grad, bits).mul_(ctx.rescale), None


def drop(x: Float[Tensor, "*shape"], draw: Draw | tuple[float, int]) -> Float[Tensor, "*shape"]:
    """Inverted dropout of x, of one of the shapes of `dropped`."""
    draw = Draw(*draw)
    if draw.rate > 0 and transformed():
        return x * (dropped(x.shape, draw, x.device) >= 0).to(x.dtype) * rescale(draw.rate)
    return _Drop.apply(x, draw) if draw.rate > 0 else x


def transformed() -> bool:
    """Whether a transform of torch.func, or forward-mode differentiation, is at work: it needs
    operations of torch's own."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


ROOM = 1024
"""Of `RecordedKeys`: uses of dropout in one forward pass: places × passes through a layer."""


class RecordedKeys:
    """Takes the place of a seed where a forward pass is recorded, so that each replay draws new
    masks: the key of each use is an element of one tensor on the device, written by `fill` before
        each step."""

    def __init__(self, device: torch.device) -> None:
        self.values: Int64[Tensor, "room"] = torch.zeros(ROOM, dtype=torch.int64, device=device)
        self.seed = 0
        self.uses: dict[tuple[int, int], int] = {}

    def fill(self, seed: int) -> None:
        """Writes the keys of this seed, without waiting for the device."""
        self.seed = seed
        if self.uses:
            keys = torch.tensor([fold(seed, place, number) for place, number in self.uses])
            if self.values.device.type == "cuda":
                keys = keys.pin_memory()
            self.values[: len(keys)].copy_(keys, non_blocking=True)

    def key(self, place: int, number: int) -> Int64[Tensor, ""]:
        """The key of one use, fold(seed, place, number); a new use gets an element of its own."""
        use = place, number
        if use not in self.uses:
            self.uses[use] = len(self.uses)
            self.values[self.uses[use]] = fold(self.seed, place, number)
        return self.values[self.uses[use]]


def fresh_key() -> int | Tensor:
    """A key from torch's generator."""
    drawn = torch.randint(1 << 62, (), device="cpu")
    # a compiler does not know its value
    return drawn if torch.compiler.is_compiling() else int(drawn)


class Dropout(nn.Module):
    """A place in the model where dropout happens. `seed_dropout` gives it its seed and its number.

    Without a seed each use draws a fresh key from torch's generator, as `nn.Dropout` would.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.seed: int | RecordedKeys | None = None
        self.place = 0
        self.examples: Examples | None = None

    def draw(self, number: int = 0) -> Draw:
        """What decides the pass `number` through this place; rate 0 outside training."""
        if not self.training or self.p == 0:
            return Draw(0.0, 0)
        return Draw(self.p, self.key(number), self.examples)

    def key(self, number: int = 0) -> int | Tensor:
        """The key of the pass `number` through this place in the present step."""
        if self.seed is None:
            return fresh_key()
        if isinstance(self.seed, RecordedKeys):
            return self.seed.key(self.place, number)
        return fold(self.seed, self.place, number)

    def forward(self, x: Float[Tensor, "*shape"], number: int = 0) -> Float[Tensor, "*shape"]:
        return drop(x, self.draw(number))

    def extra_repr(self) -> str:
        return f"p={self.p}"


def seed_dropout(
    module: nn.Module,
    seed: int | RecordedKeys | None,
    examples: Tensor | None = None,
) -> None:
    """Makes every later forward pass of `module` a pure function of (weights, batch, seed,
    examples).

    Args:
        seed: None leaves the masks to torch's generator.
        examples: (B,) int64 a key for each row of the coming batch; None: the rows count as
            examples 0, 1, …
    """
    named = None if examples is None else Examples(examples)
    places = [part for part in module.modules() if isinstance(part, Dropout)]
    for number, place in enumerate(places):
        place.seed, place.place, place.examples = seed, number, named
