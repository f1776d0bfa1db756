"""A network that comes from a folder: overrides about it are refused, since they change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from relpos.errors import RelposError

OF_SCHEME = {"size", "position", "conv", "k", "outside", "kernels"}
OF_NETWORK = {
    "pretrain": OF_SCHEME | {"vocabulary"},
    "finetune": OF_SCHEME | {"vocabulary", "pretrain"},  # pretrain.steps=… and the like
    "draw": OF_SCHEME,
}
"""Command → first parts of the keys that say which network is made and how it is pre-trained."""


def refuse_overrides(command: str, overrides: Iterable[str], plain: Mapping[str, Any]) -> None:
    """Refuses overrides that a network from a folder makes meaningless.

    Args:
        command: a primary configuration.
        overrides: the overrides, as typed.
        plain: the configuration that they give.

    Raises:
        RelposError: there is such an override beside `network=`.
    """
    if not plain.get("network"):
        return
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0].replace("/", ".")
        key = key.partition("@")[2] or key  # recipe@pretrain.recipe=small
        if key.split(".")[0] in OF_NETWORK.get(command, ()):
            recipe = "; recipe=… names the recipe by itself" if key == "size" and command != "draw" else ""
            raise RelposError(
                f"{override}: the network comes from network={plain['network']}, where this override changes nothing{recipe}"
            )
