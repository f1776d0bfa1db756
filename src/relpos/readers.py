"""Files that others may have written: small ones are read here, whole, in bounds, and refused in
one line that names the file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Hashable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from relpos.errors import CONTROL, NOT_UTF8, RelposError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
BYTES, DEPTH, VALUES = 1_000_000, 50, 100_000
"""The largest YAML file that is read, how deep its lists and groups may be nested, and how many
values it may hold, where an alias counts as all that it stands for. No configuration comes near;
libyaml overflows the stack at some 30,000 brackets."""
LARGE = 1 << 28
"""The largest other file that is read whole, in bytes, but for a user's data."""
ANY = 1 << 62
RECORD = "record.json"
"""In a run's folder: what it is and what became of it. `files` has the checksums of the files that
later readers depend on."""
MERGE = "tag:yaml.org,2002:merge"
"""What YAML calls the key `<<`."""
Plain = dict[str, Any]
"""A group of plain values, as JSON and YAML have them: a record, the meaning of a run, the results
of a measure, a node of a configuration."""
SEAL = "checksum"
"""Key of a JSON file: what `sealed` adds."""


def digest(content: object, digits: int = 8) -> str:
    """The first hexadecimal digits of the SHA-256 of plain values, whatever the order of their
    keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:digits]


def besides(content: Mapping[str, Any], keys: Collection[str]) -> Plain:
    """What is in a dictionary besides some keys."""
    return {key: value for key, value in content.items() if key not in keys}


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, which may be a stranger's: it makes plain values only, and few of
    them.

    Raises:
        RelposError: names file and line: it cannot be read, is not YAML, or is larger or nested
            deeper than any configuration.
    """
    content = read_bytes(path, BYTES)
    try:
        text = content.decode()
        _check_yaml(text)
        return yaml.load(text, Loader=_Loader)
    # ValueError: no UTF-8, or a number of more than 4,300 digits
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = str(path)
        if mark:
            place += f":{mark.line + 1}"
        raise RelposError(f"{place}: not YAML: {why}") from error


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml is ten times as fast
    """YAML as Hydra reads it: `1e-4` is a number, a date is a word, and a key may not stand
    twice."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        keys: set[Hashable] = set()
        for key, _ in node.value:
            # What is no word is refused below, with its line; `<<` merges and is no key.
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            value = self.construct_object(key)
            # As Python compares keys, where 1 is 1.0, and as they will be shown, where 1 is "1".
            if {value, str(value)} & keys:
                problem = f"{str(value)!r} is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            keys |= {value, str(value)}
        return super().construct_mapping(node, deep)


# YAML 1.1 wants a point and a sign, 1.0e-4, and reads 1e-4 as a word.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    [*"-+.0123456789"],
)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def _check_yaml(text: str) -> None:
    """Refuses tags, which would construct other things than plain values, and nesting and aliases
    that exhaust whoever reads them.

    Events come one after another; the nodes that are made of them afterwards are made by recursion,
    in C.

    Raises:
        yaml.YAMLError: with the line.
    """
    totals, anchors, sizes = [0], [""], dict[str, int]()
    for event in yaml.parse(text, Loader=_Loader):
        problem = ""
        if isinstance(event, yaml.CollectionStartEvent):
            totals.append(1)
            anchors.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            sizes[anchors.pop()] = size = totals.pop()
            totals[-1] += size
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
            totals[-1] += 1
            if CONTROL.search(event.value):
                problem = "a control character, which a terminal would obey"
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                problem = f"*{event.anchor} stands before the end of what it stands for"
            totals[-1] += sizes.get(event.anchor, 0)
        if len(totals) > DEPTH + 1:
            problem = f"nested more than {DEPTH} deep"
        elif totals[-1] > VALUES:
            problem = f"more than {VALUES:,} values"
        elif getattr(event, "tag", None):
            problem = f"the tag {event.tag} is not read; a value in quotes is a word, without quotes a number"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read_json(path: Path, shape: type[T], default: T | EllipsisType = ...) -> T:
    """The content of a JSON file, which may be a stranger's.

    Args:
        shape: the type that it must have; a dataclass is made of a mapping, see `fitted`.
        default: is returned where there is no such file; by default that is an error.

    Raises:
        RelposError: names the file, and the line at fault: see `read_text`; it is not JSON, nested
            too deep, of another shape.
    """
    if not isinstance(default, EllipsisType) and not os.path.lexists(path):
        return default
    return _parsed(read_text(path), shape, str(path))


def fitted(content: object, shape: type[T]) -> T:
    """The content as a value of this type.

    Raises:
        RelposError: it does not fit; names the place in it.
    """
    if type(shape) is type and isinstance(content, shape):
        return content
    from pydantic import ValidationError

    try:
        return _adapter(shape).validate_python(content)  # type: ignore[arg-type]  # mypy takes no class for hashable
    except ValidationError as error:
        # One line for the user: the first of pydantic's errors, which are often hundreds for one
        # cause.
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        raise RelposError(f"{place}: {first['msg']}") from None


@cache
def _adapter(shape: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(shape)


def json_lines(path: Path, end: int | None = None) -> list[Plain]:
    """The objects of a file of JSON lines to which a process may be appending; none where there is
    no such file.

    A last line that is still being written, or that a kill cut short, is left out.

    Args:
        path: the file.
        end: read only so many bytes at its end, and of these only whole lines.

    Raises:
        RelposError: names file and line: the line is no object, or see `read_bytes`.
    """
    if not path.exists():
        return []
    # One byte more: the line in which the last `end` bytes begin is dropped, unless they begin a
    # line.
    content = read_bytes(path, end=end and end + 1)
    first = int(end is not None and len(content) > end)
    lines = enumerate(content.split(b"\n")[first:-1], 1)
    return [
        _parsed(decoded(line, path, number), dict, f"{path}, line {number}{' of its end' * first}")
        for number, line in lines
    ]


def _parsed(text: str, shape: type[T], place: str) -> T:
    """The value of this type in a text of JSON; `place` begins the messages."""
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise RelposError(f"{place}: damaged: nested too deep") from error
    except ValueError as error:
        line = ""
        if isinstance(error, json.JSONDecodeError) and "\n" in text.strip():
            line = f", line {error.lineno}"
        raise RelposError(f"{place}{line}: damaged: {str(error).splitlines()[0]}") from error
    level = _values(content)
    for _ in range(DEPTH):
        level = list(chain.from_iterable(map(_values, level)))
    if level:
        raise RelposError(f"{place}: damaged: nested more than {DEPTH} deep")
    try:
        return fitted(content, shape)
    except RelposError as error:
        raise RelposError(f"{place}: damaged: {error}") from error


def _values(content: object) -> list[object]:
    """The values in a group or a list; of any other content none."""
    if isinstance(content, dict):
        return list(content.values())
    return content if isinstance(content, list) else []


def read_text(path: Path) -> str:
    """A text file, which may be a stranger's.

    Raises:
        RelposError: names the file, and the line at fault: see `read_bytes`; or it is not UTF-8.
    """
    return decoded(read_bytes(path), path)


def read_bytes(path: Path, limit: int = LARGE, end: int | None = None) -> bytes:
    """A small file, which may be a stranger's: all small files are read here.

    Args:
        limit: the most bytes that are read.
        end: read only so many bytes at its end.

    Raises:
        RelposError: names the file: there is none, it cannot be read, is a folder, a pipe or a
            device, or is larger.
    """
    size = check_regular(path).st_size
    if size > limit and not end:
        raise RelposError(f"{path}: larger than {limit:,} bytes, which no such file is")
    try:
        with path.open("rb") as file:
            if end:
                file.seek(max(0, size - end))
            return file.read(end)
    except OSError as error:
        raise RelposError(f"{path}: {error.strerror}") from error


def decoded(content: bytes, path: Path, line: int = 1) -> str:
    """The text of a file, or of a part of it that begins in this line; RelposError with the line
    that is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RelposError(
            f"{path}, line {line + content[: error.start].count(10)}: {NOT_UTF8}"
        ) from None


def check_regular(path: Path) -> os.stat_result:
    """The status of a regular file. Anything else is refused: reading a pipe or a terminal may
    never end.

    Raises:
        RelposError: it is a folder, a pipe or a device, or there is nothing.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        raise RelposError(f"{path}: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a pipe or a device"
        if path.is_dir():
            kind = "a folder"
        raise RelposError(f"{path}: {kind}, where a file is expected")
    return status


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Raises:
        RelposError: it cannot be read, or is no regular file.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RelposError(f"{path}: {error.strerror}") from error


def known_sha256(path: Path) -> str:
    """`sha256`, computed once in a process unless size or time of the file have changed."""
    status = check_regular(path)
    return _summed(path.absolute(), status.st_size, status.st_mtime_ns)


@cache
def _summed(path: Path, _size: int, _changed: int) -> str:
    return sha256(path)


def check_recorded(path: Path) -> None:
    """Compares a file with the checksum in the record of its run, once in a process; a file that no
    record names passes.

    Raises:
        RelposError: it is another file than the run has written, or see `check_regular`.
    """
    check_regular(path)
    place = path.absolute()
    for folder in place.parents[:2]:
        if expected := recorded_checksums(folder).get(place.relative_to(folder).as_posix()):
            _compare(folder, path, expected)


def check_all_recorded(run: Path) -> None:
    """`check_recorded` of all files of a run, and of the folders that it has written: other files
    there would be read as its own.

    Raises:
        RelposError: as `check_recorded`.
    """
    sums = recorded_checksums(run)
    names = set(sums)
    for folder in {name.partition("/")[0] for name in sums if "/" in name}:
        files = filter(Path.is_file, (run / folder).rglob("*"))
        names.update(path.relative_to(run).as_posix() for path in files)
    for name in sorted(names):
        _compare(run, run / name, sums.get(name, "none"))


def recorded_checksums(run: Path) -> dict[str, str]:
    """Name → checksum of the files in a run's record; empty where there is none."""
    record = read_json(run / RECORD, dict[str, object], {})
    sums = record.get("files")
    return sums if isinstance(sums, dict) else {}


def _compare(run: Path, path: Path, expected: str) -> None:
    if known_sha256(path) != expected:
        raise RelposError(
            f"damaged: {path} is not what its run has written, see {run / RECORD}; "
            f"delete {run} to run again"
        )


def sealed(content: Plain) -> Plain:
    """The content of a JSON file with a checksum of all of it, which shows changes by hand."""
    return {**content, SEAL: digest(json.loads(json.dumps(content)), 16)}


def unsealed(content: Plain, place: str) -> Plain:
    """The content without its checksum; content without one passes.

    Raises:
        RelposError: begins with `place`: the content has changed since it was sealed.
    """
    plain = dict(content)
    seal = plain.pop(SEAL, None)
    if SEAL in content and seal != digest(plain, 16):
        raise RelposError(f"{place}: changed since it was written")
    return plain
