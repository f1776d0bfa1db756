"""What checks the shapes in annotations while tests run; `conftest` puts it on every function of the model and the analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray

CHECKED = ("relpos.model", "relpos.analysis")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, refusing tensors that are not what its annotations say.

    Other arguments are left to the function: a `k` that is no number gets a one-line message there.
    """
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if _holds_array(hint)}
    return beartype(function) if function.__annotations__ else function


def _holds_array(hint: Any) -> bool:
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(_holds_array, get_args(hint)))
