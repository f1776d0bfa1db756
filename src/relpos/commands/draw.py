"""`relpos draw`: the score pattern of a scheme as a figure, of all schemes, or of a trained model."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from relpos.analysis.patterns import Pattern, draw_overview, draw_pattern, pattern, reveal
from relpos.config.conf import conf_dir
from relpos.errors import RelposError
from relpos.files import replacing
from relpos.runs.networks import resolve
from relpos.runs.run import runs_root
from relpos.train.network import build_model, encoder_of


def draw(cfg: DictConfig) -> str:
    """Draws a figure into `$RELPOS_RUNS/figures`; returns its path.

    Raises:
        RelposError: there is nothing to draw, or no such layer.
    """
    if cfg.all:
        patterns = overview(cfg)
        path = runs_root() / "figures" / "patterns.png"
        with replacing(path) as temporary:
            draw_overview(patterns, temporary)
        return str(path)
    name, state, model = _trained(str(cfg.network)) if cfg.network else _fresh(cfg)
    shown = pattern(encoder_of(model), cfg.layer - 1, cfg.length, trained=bool(cfg.network))
    if shown is None:
        raise RelposError(f"{type(model.encoder.position).__name__} adds nothing to the scores: there is no pattern to draw")
    path = runs_root() / "figures" / f"{name}-layer{cfg.layer}.png"
    with replacing(path) as temporary:
        draw_pattern(shown, temporary, f"{name}, layer {cfg.layer}, {state}", cfg.heads)
    return str(path)


def overview(cfg: DictConfig) -> dict[str, Pattern]:
    """The pattern of every option of `position` that adds something to the scores, by its name."""
    patterns = {}
    for file in sorted((conf_dir() / "position").glob("*.yaml")):
        if "???" in file.read_text(encoding="utf-8"):  # to be completed by the user
            continue
        with_option = cfg.copy()
        with_option.position = OmegaConf.load(file)
        with_option.size.layers = cfg.layer
        shown = pattern(_model(with_option)[0].encoder, cfg.layer - 1, cfg.length, trained=False)
        if shown is not None:
            patterns[file.stem] = shown
    return patterns


def _fresh(cfg: DictConfig) -> tuple[str, str, Any]:
    node = OmegaConf.to_container(cfg.position, resolve=True)
    digest = hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:6]
    model, filled = _model(cfg)
    state = "initial weights" + ", tables that begin at zero filled" * filled
    return f"{type(model.encoder.position).__name__.lower()}-{digest}", state, model


def _model(cfg: DictConfig) -> tuple[Any, bool]:
    """The network with the weights of seed 0, and whether tables that are zero at the start were filled."""
    torch.manual_seed(0)
    model = build_model(cfg)
    return model, reveal(model.encoder.position)


def _trained(name: str) -> tuple[str, str, Any]:
    network = resolve(name)
    return network.file_name, "trained", network.load()
