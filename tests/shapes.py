"""What checks the shapes in annotations while tests run; `conftest` puts it on the functions of the
model and the analysis."""

import inspect
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, install_import_hook

ROOT = Path(str(find_spec("relpos").origin)).parent  # type: ignore[union-attr]
FILES = [
    path.relative_to(ROOT.parent)
    for room in ("model", "analysis")
    for path in sorted((ROOT / room).rglob("*.py"))
]
# The programs in triton_*.py are compiled from their source: nothing may stand around them.
CHECKED = [
    ".".join(path.with_suffix("").parts)
    for path in FILES
    if path.stem != "__init__" and "triton_" not in path.stem
]
JAXTYPED = jaxtyping.jaxtyped


def install() -> None:
    """Checks what is imported from now on.

    `jaxtyping` itself binds the arguments of each call and looks at each of them twice, which takes
    as long as a small network's
    step: it is left what needs that, annotations with the value of an argument in braces.
    """

    def once(function: Any = None, *, typechecker: Any) -> Any:
        if function is None:
            return lambda function: once(function, typechecker=typechecker)
        hints = _hints_of_arrays(function)
        if hints is None or any("{" in str(hint) for hint in hints.values()):
            return JAXTYPED(function, typechecker=typechecker)
        return _checked_once(function, hints) if hints else function

    jaxtyping.jaxtyped = once
    install_import_hook(CHECKED, "shapes.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, refusing tensors that are not what its annotations say.

    Other arguments are left to the function: a `k` that is no number gets a one-line message there.
    """
    function.__annotations__ = {
        name: hint for name, hint in function.__annotations__.items() if _holds_array(hint)
    }
    return beartype(function) if function.__annotations__ else function


def _checked_once(function: FunctionType, hints: dict[str, Any]) -> Callable[..., Any]:
    bare = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    bare.__kwdefaults__, bare.__qualname__, bare.__annotations__ = (
        function.__kwdefaults__,
        function.__qualname__,
        hints,
    )
    checking = beartype(conf=BeartypeConf(violation_type=TypeCheckError))(bare)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with JAXTYPED("context"):  # in which n is the same number everywhere
            return checking(*args, **kwargs)

    return wrapped


def _hints_of_arrays(function: Any) -> dict[str, Any] | None:
    """Parameter → annotation, where an array is named; None for what is no function, or has a name
    that is defined below it."""
    try:
        hints = (
            inspect.get_annotations(function, eval_str=True)
            if inspect.isfunction(function)
            else None
        )
    except (NameError, TypeError):
        return None
    return hints and {name: hint for name, hint in hints.items() if _holds_array(hint)}


def _holds_array(hint: Any) -> bool:
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(
        map(_holds_array, get_args(hint))
    )
