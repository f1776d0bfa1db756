"""What of a configuration is part of the identity of a training, and what is not."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from relpos.config.schema import WATCHING
from relpos.data.objective import RATE
from relpos.readers import Plain, besides, sha256
from relpos.trust import find, targets

DIALS = ("steps", "batch", "seed", "precision", "length")
"""Keys that are part of the identity of every training run."""
PAPERS_LAYERS = {
    "attention": "bidirectional",
    "norm_first": False,
    "norm": "layer",
    "glu": False,
    "bias": True,
    "qk_norm": False,
}
"""Keys of `size` that an identity leaves out where they have these values, which are those of the
papers' networks."""
IDLE: Mapping[str, tuple[object, ...]] = {
    "position_lr": (1,),
    "optimizer": ("adamw",),
    "masking": (None, RATE),
    "schedule": ("linear",),
}
"""Keys of a recipe that an identity leaves out where they have one of these values: they change
nothing then."""
MACHINE = ("speed", "logger", "snapshots", "evaluations", "checkpoint_every", "log_every")
"""Keys that a run reads but that do not change its result: they are not part of its identity."""
SWITCHES = ("overfit_batches", "fast_dev_run")
"""Keys of `trainer` that change a result."""


def architecture_part(config: Plain) -> Plain:
    """Size, position, convolution, and an objective of the user's own. A class from outside the
    package is identified by the hash of its source file. Keys of the size that came later are left
    out where the layers are the papers': runs keep the identity from before."""
    size = besides(config["size"], PAPERS_LAYERS) | other_layers(config["size"])
    nodes = {"size": size, "position": config["position"], "conv": config["conv"]}
    if not config["objective"]["_target_"].startswith("relpos."):  # `masking` names ours
        nodes["objective"] = config["objective"]
    return nodes | _sources(nodes)


def _sources(nodes: Plain) -> Plain:
    """The key `sources`: class of the user's own → the hash of its source file, which stands for
    the version that other classes have; empty where there is none."""
    sources = {}
    for path, name in targets(nodes):
        if not name.startswith(("relpos.", "pytorch_lightning.")):
            outside = find(name, path.split(".")[0], f"{path}._target_")
            sources[name] = sha256(Path(inspect.getfile(outside)))
    return {"sources": sources} if sources else {}


def other_layers(size: Plain) -> Plain:
    """The keys of a size in which its layers are not the papers'."""
    return {key: size[key] for key, value in PAPERS_LAYERS.items() if size.get(key, value) != value}


def recipe_part(recipe: Plain) -> Plain:
    """The recipe without `steps`, `batch` and `head`, whose dials at the top level count, and
    without what is idle."""
    recipe = besides(recipe, ("steps", "batch", "head"))
    # Two ways to write one training must give one identity: a list of equal values is that value.
    if isinstance(rates := recipe["position_lr"], list) and len(set(rates)) == 1:
        recipe["position_lr"] = rates[0]
    # convolutions take the rate of positions by themselves
    if recipe.get("conv_lr") in (None, recipe.get("position_lr")):
        recipe.pop("conv_lr", None)
    # a linear rate falls from the first step on, and has no last phase
    if recipe.get("schedule") == "linear":
        del recipe["decay"]
    return {key: value for key, value in recipe.items() if value not in IDLE.get(key, ())}


def lightning_part(config: Plain) -> Plain:
    """Callbacks and switches of Lightning's Trainer by which a result may change, for the identity;
    empty without any."""
    callbacks = {
        name: node
        for name, node in (config.get("callbacks") or {}).items()
        if node["_target_"] not in WATCHING
    }
    trainer = {key: value for key in SWITCHES if (value := (config.get("trainer") or {}).get(key))}
    parts = {"callbacks": callbacks | _sources({"callbacks": callbacks}), "trainer": trainer}
    return {key: part for key, part in parts.items() if part}


def machine_part(config: Plain) -> Plain:
    keys = (*MACHINE, "callbacks", "trainer", "scheme")
    return {key: config[key] for key in keys if key in config}
