"""What checks the shapes in annotations while tests run; `conftest` puts it on the functions of the model and the analysis."""

import inspect
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray, install_import_hook

ROOT = Path(str(find_spec("relpos").origin)).parent  # type: ignore[union-attr]
FILES = [path.relative_to(ROOT.parent) for room in ("model", "analysis") for path in sorted((ROOT / room).rglob("*.py"))]
# The programs in triton_*.py are compiled from their source: nothing may stand around them.
CHECKED = [".".join(path.with_suffix("").parts) for path in FILES if path.stem != "__init__" and "triton_" not in path.stem]


def install() -> None:
    """Checks what is imported from now on. Functions whose annotations name no array stay as they are: jaxtyping would bind
    the arguments of each of their calls."""
    jaxtyped = jaxtyping.jaxtyped

    def where_arrays_are_named(function: Any = None, *, typechecker: Any) -> Any:
        if function is None:
            return lambda function: where_arrays_are_named(function, typechecker=typechecker)
        return function if _is_without_arrays(function) else jaxtyped(function, typechecker=typechecker)

    jaxtyping.jaxtyped = where_arrays_are_named
    install_import_hook(CHECKED, "shapes.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, refusing tensors that are not what its annotations say.

    Other arguments are left to the function: a `k` that is no number gets a one-line message there.
    """
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if _holds_array(hint)}
    return beartype(function) if function.__annotations__ else function


def _is_without_arrays(function: Any) -> bool:
    try:
        return inspect.isfunction(function) and not any(
            map(_holds_array, inspect.get_annotations(function, eval_str=True).values())
        )
    except (NameError, TypeError):  # a name that is defined below, or for type checkers only
        return False


def _holds_array(hint: Any) -> bool:
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(_holds_array, get_args(hint)))
