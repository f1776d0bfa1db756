"""Python definitions as text: those that some need, directly or through others, taken from their modules and put into one file.

A definition is a function, a class or an assignment at the top level of a module. One that uses what is defined in another way, as
inside `try`, or imported from a relative place, is refused: these cannot be taken along.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from relpos.errors import RelposError

LINE = 132
"""Characters of an import statement."""


class Symbol(NamedTuple):
    """A definition of a module."""

    module: str
    name: str


class Module:
    """A module as text.

    Args:
        name: dotted.
        text: its source.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.lines = name, text.splitlines()
        tree = ast.parse(text)
        self.defined: dict[str, list[ast.stmt]] = {}  # name → its definition, and the text about it
        self.imported: dict[str, tuple[str, str | None]] = {}  # name → module, name there
        self._free: dict[str, list[ast.Name]] = {}
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            has_about = isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            for name in _defines(node):
                self.defined[name] = [node, after] if has_about and after else [node]
            self.imported |= _imports(node)

    def refers(self, name: str) -> list[ast.Name]:
        """Where a definition uses names of the module."""
        if name not in self._free:
            self._free[name] = [found for node in self.defined[name] for found in _free(node)]
        return self._free[name]

    def reads(self, name: str) -> set[str]:
        """The names of the module without which a definition fails: all that it uses outside annotations."""
        first, last = rows(self.defined[name])
        text = "\n".join(["from __future__ import annotations", *self.lines[first:last]])
        tables = [symtable.symtable(text, self.name, "exec")]
        for table in tables:  # which grows meanwhile
            tables += table.get_children()
        symbols = [symbol for table in tables for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()]
        return {symbol.get_name() for symbol in symbols if not hasattr(builtins, symbol.get_name())}

    def text(self, name: str, called: Callable[[str], str]) -> str:
        """The lines of a definition, with the comment above it.

        Args:
            called: a name of the module → what it is called in the file.
        """
        lines = [line.encode() for line in self.lines]  # columns count bytes
        # From right to left: a longer name would move all that stands behind it.
        for found in sorted(self.refers(name), key=lambda found: (found.lineno, -found.col_offset)):
            line, start = lines[found.lineno - 1], found.col_offset
            lines[found.lineno - 1] = line[:start] + called(found.id).encode() + line[start + len(found.id.encode()) :]
        first, last = rows(self.defined[name])
        # The names that are defined are no references, so the loop above has not replaced them.
        head = self.defined[name][0].lineno - 1
        for defined in _defines(self.defined[name][0]):
            lines[head] = re.sub(rf"\b{defined}\b", called(defined), lines[head].decode(), count=1).encode()
        while first and self.lines[first - 1].startswith("#"):
            first -= 1
        return b"\n".join(lines[first:last]).decode()


class Library:
    """Modules from which definitions are taken.

    Args:
        module: the module of a name; None for those from which nothing is taken: they are imported.
        added: names that the file defines besides.
    """

    def __init__(self, module: Callable[[str], Module | None], added: Collection[str] = ()) -> None:
        self.module, self.added = module, set(added)

    def resolve(self, module: str, name: str) -> Symbol | None:
        """The definition that a name in a module stands for; None if it comes from a module from which nothing is taken."""
        source = self.module(module)
        if source is None:
            return None
        if name in source.defined:
            return Symbol(module, name)
        base, there = source.imported.get(name, ("", None))
        return self.resolve(base, there) if there else None

    def file(self, roots: Iterable[Symbol]) -> tuple[str, str, dict[Symbol, str]]:
        """The imports, the definitions module by module, and what each definition is called.

        Raises:
            RelposError: a definition uses what cannot be taken along; names the module and the name.
        """
        needed = self._needed(roots)
        called = _names(needed)
        parts, imports = [], set()
        for name in self._in_order(needed):
            source = self.module(name)
            assert source
            wanted = [defined for defined in source.defined if Symbol(name, defined) in needed]
            # Without repetition: one statement may define two names, as in `a, b = 1, 2`.
            texts = dict.fromkeys(source.text(defined, self._caller(name, called)) for defined in wanted)
            parts.append("\n\n\n".join([f"# {name}", *texts]))
            imports |= {line for defined in wanted for line in self._outside(source, defined)}
        return _sorted(imports), "\n\n\n".join(parts), called

    def _caller(self, module: str, called: Mapping[Symbol, str]) -> Callable[[str], str]:
        def call(name: str) -> str:
            symbol = self.resolve(module, name)
            return called.get(symbol, name) if symbol else name

        return call

    def _needed(self, roots: Iterable[Symbol]) -> set[Symbol]:
        """These definitions, those that they refer to, and so on."""
        needed: set[Symbol] = set()
        waiting = list(roots)
        while waiting:
            symbol = waiting.pop()
            if symbol not in needed:
                needed.add(symbol)
                waiting += self._refers(symbol)
        return needed

    def _refers(self, symbol: Symbol) -> list[Symbol]:
        source = self.module(symbol.module)
        assert source
        found = (self.resolve(symbol.module, name.id) for name in source.refers(symbol.name))
        return [other for other in found if other]

    def _in_order(self, needed: set[Symbol]) -> list[str]:
        """The modules of these definitions, each behind those whose definitions it uses."""
        order: dict[str, None] = {}

        def visit(module: str, above: frozenset[str]) -> None:
            # Modules may import each other: one that is being visited is not waited for again.
            if module in order or module in above:
                return
            for symbol in sorted(needed):
                if symbol.module == module:
                    for other in self._refers(symbol):
                        visit(other.module, above | {module})
            order[module] = None

        # Sorted, because a set of texts has another order in each process: the same network gives the same file.
        for module in sorted({symbol.module for symbol in needed}):
            visit(module, frozenset())
        return list(order)

    def _outside(self, source: Module, name: str) -> Iterator[str]:
        """The imports that a definition needs.

        Raises:
            RelposError: it uses a name that the module neither defines nor imports at its top level, or a relative import.
        """
        for unknown in sorted(source.reads(name) - source.defined.keys() - source.imported.keys() - self.added):
            raise RelposError(f"module {source.name}: {unknown} is neither defined nor imported at the top level of the module")
        for found in source.refers(name):
            base, there = source.imported.get(found.id, ("", None))
            if base.startswith("."):
                raise RelposError(f"module {source.name}: {found.id} is imported from {base}: write the full name of that module")
            if base and found.id not in source.defined and self.module(base) is None:
                alias = "" if found.id in (there, base.partition(".")[0]) else f" as {found.id}"
                yield f"from {base} import {there}{alias}" if there else f"import {base}{alias}"


def rows(nodes: list[ast.stmt]) -> tuple[int, int]:
    """The first row of some statements, decorators included, and the row behind the last."""
    first = min(part.lineno for node in nodes for part in (node, *getattr(node, "decorator_list", [])))
    return first - 1, max(node.end_lineno or 0 for node in nodes)


def packages(imports: str) -> list[str]:
    """The packages of other people in some import statements."""
    tops = {line.split()[1].partition(".")[0] for line in imports.splitlines() if line.startswith(("import ", "from "))}
    return sorted(tops - sys.stdlib_module_names)


def _defines(node: ast.stmt) -> list[str]:
    """The names that a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _imports(node: ast.stmt) -> dict[str, tuple[str, str | None]]:
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name: ("." * node.level + (node.module or ""), alias.name) for alias in node.names}
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name.partition(".")[0]: (alias.name, None) for alias in node.names}
    return {}


def _free(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[ast.Name]:
    """The names in a node that mean something outside it: neither arguments nor variables of its functions."""
    if isinstance(node, ast.Name):
        if node.id not in bound and isinstance(node.ctx, ast.Load) and not hasattr(builtins, node.id):
            yield node
        return
    inside = bound
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        named = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
        inside |= stored | named | {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef) and part is not node}
    for field, value in ast.iter_fields(node):
        # Decorators, defaults and annotations are read where the function is defined.
        scope = bound if field in ("args", "decorator_list", "returns") else inside
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _free(part, scope)


def _names(needed: set[Symbol]) -> dict[Symbol, str]:
    """Each definition under its name, with its module's behind it where two modules define the same."""
    names = [symbol.name for symbol in needed]
    return {
        symbol: symbol.name if names.count(symbol.name) == 1 else "_".join([symbol.name, *symbol.module.split(".")[-2:]])
        for symbol in needed
    }


def _sorted(imports: set[str]) -> str:
    """Import statements as they are usually written: the standard library, then the rest; names of one module in one line."""
    named: dict[str, list[str]] = {}
    for line in sorted(imports):
        if line.startswith("from "):
            base, _, name = line.removeprefix("from ").partition(" import ")
            named.setdefault(base, []).append(name)
    plain = sorted(line for line in imports if line.startswith("import "))
    lines = [*plain, *(f"from {base} import {', '.join(names)}" for base, names in named.items())]
    groups = [[line for line in lines if bool(packages(line)) == foreign] for foreign in (False, True)]
    return "\n\n".join("\n".join(map(_folded, group)) for group in groups if group)


def _folded(line: str) -> str:
    if len(line) <= LINE:
        return line
    head, _, names = line.partition(" import ")
    return f"{head} import (\n{textwrap.fill(names, LINE, initial_indent='    ', subsequent_indent='    ')},\n)"
