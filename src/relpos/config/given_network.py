"""A network that comes from a folder: overrides about it are refused, since they change nothing; its width gives the recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.pretrained.files import is_published, read_config

OF_SCHEME = {"size", "position", "conv", "k", "outside", "kernels"}
OF_NETWORK = {
    "pretrain": OF_SCHEME | {"vocabulary"},
    "finetune": OF_SCHEME | {"vocabulary", "pretrain"},  # pretrain.steps=… and the like
    "draw": OF_SCHEME,
}
"""Command → first parts of the keys that say which network is made and how it is pre-trained."""
STARTS = ("from", "pretrained")
RECIPES = {"pretrain": "{}", "finetune": "finetune_{}"}
"""Command → the name of its recipe for networks of some size."""
BASE = 768
"""Width of BERT-base."""


def with_recipe(command: str, overrides: Sequence[str]) -> list[str]:
    """The overrides, with the recipe for networks of its width where a network comes from a folder and no recipe is named.

    That of `size=tiny`, the default, would ruin a published checkpoint: its learning rate is 10 to 25 times that of BERT-base.

    >>> with_recipe("finetune", ["task=rte", "pretrained=albert-base-v2"])
    ['task=rte', 'pretrained=albert-base-v2', 'recipe=finetune_base']
    """
    overrides = list(overrides)
    values = {override.lstrip("+").partition("=")[0]: override.partition("=")[2] for override in overrides}
    start = next((values[key] for key in STARTS if values.get(key, "null") != "null"), None)
    if command not in RECIPES or start is None or "recipe" in values:
        return overrides
    first, _, _ = start.strip("'\"").partition(",")  # of a sweep
    return [*overrides, f"recipe={RECIPES[command].format(_size_of(first))}"]


def _size_of(name: str) -> str:
    """The preset size that a network is like: by its width if it is a folder, otherwise `base`, as most networks of the hub."""
    from relpos.train.weights import read_model_config

    folder = Path(name).expanduser()
    folder = folder / "model" if (folder / "model").is_dir() else folder
    hidden = BASE
    with suppress(RelposError):  # no model in it, as whoever reads it will say
        if is_published(folder):
            hidden = read_config(folder).get("hidden_size", BASE)
        elif folder.is_dir():
            hidden = read_model_config(folder)["size"]["hidden"]
    return "tiny" if hidden < 128 else "small" if hidden < 512 else "base"


def refuse_overrides(command: str, overrides: Iterable[str], plain: Mapping[str, Any]) -> None:
    """Refuses overrides that a network from a folder makes meaningless.

    Args:
        command: a primary configuration.
        overrides: the overrides, as typed.
        plain: the configuration that they give.

    Raises:
        RelposError: there is such an override beside `from=` or `pretrained=`.
    """
    start = next((key for key in STARTS if plain.get(key)), None)
    if start is None:
        return
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0].replace("/", ".")
        key = key.partition("@")[2] or key  # recipe@pretrain.recipe=small
        if key.split(".")[0] in OF_NETWORK.get(command, ()):
            recipe = "; recipe=… names the recipe by itself" if key == "size" and command != "draw" else ""
            raise RelposError(
                f"{override}: the network comes from {start}={plain[start]}, where this override changes nothing{recipe}"
            )
