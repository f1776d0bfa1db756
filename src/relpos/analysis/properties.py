"""The six properties by which Wennberg & Henter 2021 (Table 1) compare position schemes, each
tested on a network.

inductive               serves any length, and has no largest distance beyond which one distance looks like another
data-driven             has parameters of its own, and training moves some of them: a loss gives a gradient other than zero
parameter-efficient     has fewer parameters than a table of absolute positions in the same model
translation-invariant   a sequence shifted inside its padding gives the same outputs
parallelisable          a longer sequence does not lengthen the chain of operations that wait for each other
interpretable           T is the same for all tokens and depends on j − i alone: one curve for each head shows all of it

That a sequence of any length can be put in does not suffice: the paper's table has T5 and Shaw et
al. as not inductive, whose weights are the same for all offsets beyond the last. For a scheme that
adds nothing the properties say nothing. The networks are small ones in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import Node

from relpos.analysis.recording import added, random_ids, record
from relpos.analysis.toeplitz import toeplitz_r2
from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.model.heads import MaskedLM
from relpos.model.shape import Ids

NAMES = (
    "inductive",
    "data-driven",
    "parameter-efficient",
    "translation-invariant",
    "parallelisable",
    "interpretable",
)
EQUAL = 1e-9
Mechanism = Callable[[MaskedLM], list[nn.Parameter]]
"""Model → the parameters of the scheme or convolution in question."""
FAR = (520, 560)
"""Two distances; the largest that a preset tells apart by a number of its own is 512."""
FACTORS = (1.0, 1e-2, 1e-4)
"""Factors of parameters: with large ones a function of the distance may have died away in float64
before `FAR`."""


def properties(
    model: MaskedLM,
    mechanism: Mechanism,
    parameters: int,
    table: int,
) -> dict[str, bool]:
    """{name: whether the scheme has this property}.

    Args:
        model: a small masked language model in float64 with `max_positions` ≥ 16; its weights are
            replaced by random ones.
        mechanism: whose properties they are.
        parameters: how many parameters it has in a model of the usual size.
        table: how many the table of absolute positions has in that model.
    """
    randomise(model)
    model.eval()
    own = mechanism(model)
    return {
        "inductive": tells_far_apart(model, mechanism),
        "data-driven": learns(model, own),
        "parameter-efficient": parameters < table,
        "translation-invariant": shifts(model.encoder),
        # Twice the length: a recurrence over tokens would make the chain about twice as deep.
        "parallelisable": depth_of(model, own, 12) == depth_of(model, own, 6),
        "interpretable": is_curve(model.encoder),
    }


@torch.no_grad()
def tells_far_apart(model: MaskedLM, mechanism: Mechanism) -> bool:
    """Whether, with some parameters, the score of the same token is another at the second distance
    of `FAR` than at the first."""
    try:
        return any(_tells_far_apart(deepcopy(model), mechanism, factor) for factor in FACTORS)
    except RelposError:  # the scheme refuses sequences of this length
        return False


def _tells_far_apart(model: MaskedLM, mechanism: Mechanism, factor: float) -> bool:
    for parameter in mechanism(model):
        parameter.mul_(factor)
    n = max(FAR) + 16  # farther from the end than any window reaches
    # One token again and again: in the first layer tokens differ by nothing but their places.
    calls = record(model.encoder, torch.full((1, n), 5))
    if not calls:
        return False
    call = calls[0]
    if call.terms.reach is not None and call.terms.reach < max(FAR):
        return False
    tables = [added(call.terms, n)]
    if heads := call.turned(model.encoder.position, call.heads) or call.heads:
        tables.append(heads[0] @ heads[1].transpose(-1, -2))
    rows = [table[:, :, 0] for table in tables if table is not None]
    return any(bool((row[..., FAR[0]] - row[..., FAR[1]]).abs().max() > EQUAL) for row in rows)


def learns(model: MaskedLM, parameters: list[nn.Parameter]) -> bool:
    """Whether the gradient of some parameter is not zero."""
    _loss(model, 8).backward()
    return any(
        parameter.grad is not None and bool(parameter.grad.any()) for parameter in parameters
    )


@torch.no_grad()
def shifts(encoder: Encoder) -> bool:
    """Whether eight tokens give the same outputs at places 0 … 7 and at places 5 … 12 of fourteen,
    all others being padding."""
    ids = _ids(encoder, 1, 8) + 1
    outputs = []
    for left in (0, 5):
        row = nn.functional.pad(ids, (left, 6 - left))
        outputs.append(encoder(row, row.ne(0))[:, left : left + 8])
    return bool((outputs[0] - outputs[1]).abs().max() < EQUAL)


def depth_of(model: MaskedLM, parameters: list[nn.Parameter], n: int) -> int:
    """Operations on the longest path from the loss of n tokens back to one of the parameters; 0
    where there is none."""
    ends = {id(parameter) for parameter in parameters}
    depth: dict[Node, int] = {}
    start = _loss(model, n).grad_fn
    assert start is not None
    todo = [start]
    while todo:
        node = todo[-1]
        before = [function for function, _ in node.next_functions if function is not None]
        # By hand and not recursively: the chain of a recurrence is longer than Python's stack is
        # deep.
        if waiting := [function for function in before if function not in depth]:
            todo += waiting
            continue
        longest = max((depth[function] for function in before), default=0)
        end = id(getattr(node, "variable", None)) in ends
        depth[todo.pop()] = longest + bool(longest or end)
    return depth[start]


def is_curve(encoder: Encoder) -> bool:
    """Whether nothing but T acts on the scores, and T depends on j − i alone."""
    position = encoder.position
    calls = record(encoder, random_ids(encoder, 3, 10))
    if not calls or position.embed(10) is not None:
        return False
    for call in calls:
        terms = added(call.terms, 10)
        if terms is None or call.turned(position, call.heads) is not None:
            return False
        spread = (terms - terms[:1]).abs().max()
        if spread > EQUAL or min(toeplitz_r2(head) for head in terms[0]) < 1 - EQUAL:
            return False
    return True


def _loss(model: MaskedLM, n: int) -> Float[Tensor, ""]:
    ids = _ids(model.encoder, 2, n)
    model.zero_grad()
    return model.loss(ids, ids)


def _ids(encoder: Encoder, sequences: int, n: int) -> Ids:
    vocabulary = encoder.embedding.words.num_embeddings
    return torch.randint(
        5,
        vocabulary - 1,
        (sequences, n),
        generator=torch.Generator().manual_seed(1),
    )


def randomise(model: nn.Module, seed: int = 2) -> None:
    """Adds noise to every parameter: at an initial value such as 0 some would have no effect that
    could be seen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            )
