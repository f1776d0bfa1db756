"""Other positions in a trained network: those that `change` describes, in the network and in the
node that describes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from relpos.config.schema import Change
from relpos.errors import RelposError
from relpos.model.architecture import class_of
from relpos.model.encoder import Encoder
from relpos.model.initial import redraw
from relpos.ranges import Node

Values = list[tuple[Any, Any, Any]]
"""Amplitudes, sharpnesses and centres of a layer, head by head."""
PACKAGE = "relpos.model.position"
ABSOLUTE = f"{PACKAGE}.Absolute"
"""A table of position embeddings and nothing else."""


def change_positions(encoder: Encoder, change: Change, length: int, seed: int) -> None:
    """Gives a network, in place, other positions, as Wennberg & Henter (2021, Section 5) gave
    ALBERT. TISA is fitted to F̂_P of the network as it was before position embeddings are removed.

    The paper does not say to how many positions TISA is fitted, nor whether it is fitted where the
    position embeddings stay. Here the fit is to the `length` of the training, and `change.start`
    says whether there is one.

    Args:
        change: `positions`, `tisa`, `start`, `reused` as in conf/finetune.yaml; what is left out is
            not changed.
        length: of the profiles F̂_P to which TISA is fitted.
        seed: of the random start.

    Raises:
        RelposError: the network has no table of position embeddings where one is removed or fitted
            to.
    """
    from relpos.model.surgery import add_tisa, fold_positions, set_tisa

    values: list[Values] = []
    if change.tisa and change.start == "regression":
        values = fitted_values(encoder, change, length)
    if change.positions == "remove":
        fold_positions(encoder)
    if change.tisa:
        # The modules draw their initial values when they are made; these are drawn again, from the
        # run's seed.
        with torch.random.fork_rng(devices=[]):
            tisa = add_tisa(encoder, change.tisa, change.reused)
        redraw(tisa.named_parameters(), seed)
        if values:
            set_tisa(tisa, values)


def check_change(encoder: Encoder, change: Change, length: int) -> None:
    """Raises RelposError where `change_positions` would for another reason than the positions,
    which `changed_position` checks."""
    if change.positions == "remove":
        from relpos.model.surgery import token_types

        token_types(encoder)
    if change.tisa and change.start == "regression":
        from relpos.analysis.profiles import check_maps

        check_maps(encoder, length, change.tisa)


def fitted_values(encoder: Encoder, change: Change, length: int) -> list[Values]:
    """For each module of TISA and each head: amplitudes, sharpnesses and centres by least squares
    to F̂_P of the module's layer.

    One module for all layers is fitted to the mean of their F̂_P. Layers that share their weights
    share the fit.
    """
    from relpos.analysis.profiles import profiles

    layers = len(encoder.layers)
    matrices = [profiles(encoder, layer, length) for layer in range(layers)]
    # One module serves all layers, and least squares to their mean is least squares to all of them.
    if change.reused:
        return [_fitted(torch.stack(matrices).mean(0), change.tisa)]
    values = [_fitted(heads, change.tisa) for heads in matrices]
    return [values[number % layers] for number in range(encoder.shape.layers)]


def _fitted(heads: Tensor, functions: int) -> Values:
    """Amplitudes, sharpnesses and centres for each head of a layer; `heads` is its F̂_P (heads, n,
    n)."""
    from relpos.analysis.profiles import fit_profiles

    fits = fit_profiles(heads, functions)
    return [(fit.amplitude, fit.sharpness, fit.centre) for fit in fits]


def changed_position(position: Node, change: Change) -> Node:
    """The node `position` of a network after `change_positions`.

    Raises:
        RelposError: position embeddings are to be removed, and the network has others or more than
            those.

    >>> changed_position({"_target_": "relpos.model.position.Absolute"}, Change("remove"))["_target_"]
    'relpos.model.position.NoPosition'
    """
    is_bare = position["_target_"].endswith(".NoPosition")
    if change.positions == "remove":
        if position["_target_"] != ABSOLUTE:
            raise RelposError(
                f"change.positions=remove: {class_of(position)} is no table of "
                f"position embeddings alone"
            )
        position, is_bare = {"_target_": f"{PACKAGE}.NoPosition", "_partial_": True}, True
    if not change.tisa:
        return position
    if change.start == "regression" and not has_table(position) and change.positions == "keep":
        raise RelposError(
            f"change.start=regression: {class_of(position)} has no position "
            f"embeddings to fit TISA to; start=random"
        )
    tisa = {
        "_target_": f"{PACKAGE}.Tisa",
        "_partial_": True,
        "kernels": change.tisa,
        "reused": change.reused,
    }
    if is_bare:
        return tisa
    return {"_target_": f"{PACKAGE}.Merge", "_partial_": True, "parts": [position, tisa]}


def has_table(position: Node) -> bool:
    """Whether a node `position` has a table of position embeddings, itself or in a part."""
    return position["_target_"] == ABSOLUTE or any(
        has_table(part) for key in ("parts", "layers") for part in position.get(key) or ()
    )
