"""`relpos draw`: the score pattern of a scheme as a figure, of all schemes, or of a trained model."""

from __future__ import annotations

from typing import Any, Unpack

import torch

from relpos import style
from relpos.analysis.patterns import Pattern, draw_overview, draw_pattern, pattern, reveal
from relpos.config.compose import composed, resolved
from relpos.config.conf import conf_dir
from relpos.config.schema import NetworkKeys
from relpos.errors import RelposError
from relpos.files import digest
from relpos.model.encoder import encoder_of
from relpos.ranges import Count
from relpos.runs.networks import resolve
from relpos.runs.run import runs_root
from relpos.train.network import network as build_network


def draw(all: bool, network: str | None, layer: Count, heads: Count, length: Count, **described: Unpack[NetworkKeys]) -> str:
    """Draws a figure into `$RELPOS_RUNS/figures`; returns its path.

    Raises:
        RelposError: there is nothing to draw, or no such layer.
    """
    if all:
        patterns = overview(described, layer, length)
        path = runs_root() / "figures" / "patterns.png"
        style.save(draw_overview(patterns), path, dpi=70)
        return str(path)
    if network:
        given = resolve(network)
        name, state, model = given.file_name, "trained", given.load()
    else:
        model, filled = _model(described)
        # Two choices of dials must not overwrite each other's figure.
        name = f"{type(model.encoder.position).__name__.lower()}-{digest([described, heads, length], 6)}"
        state = "initial weights" + ", tables that begin at zero filled" * filled
    shown = pattern(encoder_of(model), layer - 1, length, trained=network is not None)
    if shown is None:
        raise RelposError(f"{type(model.encoder.position).__name__} adds nothing to the scores: there is no pattern to draw")
    path = runs_root() / "figures" / f"{name}-layer{layer}.png"
    style.save(draw_pattern(shown, f"{name}, layer {layer}, {state}", heads), path)
    return str(path)


def overview(described: NetworkKeys, layer: int, length: int) -> dict[str, Pattern]:
    """The pattern of every option of `position` that adds something to the scores, by its name."""
    patterns = {}
    for file in sorted((conf_dir() / "position").glob("*.yaml")):
        if "???" in file.read_text(encoding="utf-8"):  # to be completed by the user
            continue
        overrides = [f"position={file.stem}", *(f"{key}={described[key]}" for key in ("k", "outside", "kernels"))]
        position = resolved(composed("draw", overrides))["position"]
        # With no more layers than the one that is drawn, because all schemes are built for one figure.
        model, _ = _model({**described, "position": position, "size": described["size"] | {"layers": layer}})
        shown = pattern(model.encoder, layer - 1, length, trained=False)
        if shown is not None:
            patterns[file.stem] = shown
    return patterns


def _model(described: NetworkKeys) -> tuple[Any, bool]:
    """The network with the weights of seed 0, and whether tables that are zero at the start were filled."""
    # The same figure each time, whatever was drawn before.
    torch.manual_seed(0)
    model = build_network(described)
    return model, reveal(model.encoder.position)
