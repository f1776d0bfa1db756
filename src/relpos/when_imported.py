"""A function that is called once a module has been imported, by whoever imports it; at once where
that has happened already."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

ABSENT = ("matplotlib", "scipy", "transformers")
"""What torchmetrics imports where it is installed, for metrics that nothing here computes."""


def when_imported(module: str, call: Callable[[], object]) -> None:
    """Calls `call` when `module` has been imported. What it raises reaches whoever imports the
    module.

    >>> import colorsys, sys
    >>> called = []
    >>> when_imported("colorsys", lambda: called.append("at once"))
    >>> del sys.modules["colorsys"]
    >>> when_imported("colorsys", lambda: called.append("later"))
    >>> import colorsys
    >>> called
    ['at once', 'later']
    """
    if module in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Finder(module, call))


def import_quickly() -> None:
    """Takes half off the five seconds that importing Lightning takes. Only for processes that
    relpos starts.

    Lightning and torchmetrics, which it imports, are made to believe that `ABSENT` is not
    installed; in a notebook, the user may want the metrics that need it. And Python looks for
    circles of objects less often: imports make thousands of objects that stay.
    """
    gc.set_threshold(10_000)  # new objects, instead of 700

    def pretend() -> None:
        imports: Any = sys.modules["lightning_utilities.core.imports"]

        def without_absent(find: Callable[[str], Any], name: str) -> Any:
            if name in ABSENT:
                raise imports.PackageNotFoundError(name)
            return find(name)

        with suppress(AttributeError):  # of another version
            functions = (imports.find_spec, imports._version)
            imports.find_spec, imports._version = (
                partial(without_absent, find) for find in functions
            )

    when_imported("lightning_utilities.core.imports", pretend)


class _Finder:
    """Finds one module as the other finders do, and makes its loader call a function at the end."""

    # No dataclass: to import `dataclasses` would take a tenth of the time of `relpos --help`.
    def __init__(self, module: str, call: Callable[[], object]) -> None:
        self.module, self.call, self.is_done = module, call, False

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if self.is_done or name != self.module:
            return None
        self.is_done = True  # the search below comes here again
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.call()

            loader.exec_module = exec_module
        return spec
