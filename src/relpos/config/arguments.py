"""Rewrites typed arguments into Hydra's overrides; `REWRITES` lists every shorthand."""

from __future__ import annotations

import json
import re
from argparse import ArgumentError
from collections.abc import Callable, Sequence
from contextlib import suppress

from relpos.config.conf import key_of, keys_of, options
from relpos.errors import RelposError, nearest
from relpos.places import expanded
from relpos.pretrained.files import form_of, read_config
from relpos.process import without_keys

KEYED = re.compile(r"[+~]{0,2}[\w./@-]+=")
"""The begin of an argument with a key."""
LISTED = {"compare": "network"}
"""Command → the key of the list that its arguments without a key form."""
SINGLE = {"analyze": "kind"}
"""Command → the group of its one argument without a key."""
SHORT = {
    "finetune": {"intermediate": "task", "tokenizer": "file"},
    "pretrain": {"tokenizer": "file"},
    "data": {"tokenizer": "file"},
}
"""Command → group → the key of the group that the group's own name sets."""
RECIPES = {"pretrain": "{}", "finetune": "finetune_{}"}
"""Command → the name of its recipe for networks of some size."""
BASE = 768
"""Width of BERT-base."""


def flags_and_overrides(command: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Hydra's flags, each with its value, and all other arguments. Hydra wants the flags first.

    Raises:
        RelposError: there is no such flag, or its value is missing or wrong. For a key with dashes
            the message has the right form.

    >>> flags_and_overrides("params", ["position=none", "-m", "k=2,3", "--cfg", "job"])
    (['-m', '--cfg', 'job'], ['position=none', 'k=2,3'])
    """
    from hydra._internal.utils import get_args_parser

    flags: list[str] = []
    overrides: list[str] = []
    parser = get_args_parser()
    # Hydra offers no list of its flags, and its parser knows which of them take a value.
    actions = parser._option_string_actions
    for argument in arguments:
        is_value = bool(flags) and flags[-1] in actions and actions[flags[-1]].nargs is None
        if argument.startswith("-") or is_value:
            flags.append(argument)
        else:
            overrides.append(argument)
    # Otherwise argparse would print Hydra's usage, forty lines, and end the process.
    parser.exit_on_error = False
    try:
        parsed, unknown = parser.parse_known_args(flags)
    except ArgumentError as error:
        raise RelposError(str(error)) from None
    if unknown:
        flag, _, value = unknown[0].partition("=")
        key = flag.lstrip("-")
        following = arguments[arguments.index(unknown[0]) + 1 :]
        if not value and following and "=" not in following[0] and not following[0].startswith("-"):
            value = following[0]
        # --steps 20, --steps=20, --lr 1e-3
        if value or key.split(".")[0].replace("-", "_") in keys_of(command):
            [override] = without_keys([f"{key.replace('-', '_')}={value or 'VALUE'}"])
            raise RelposError(f"{flag}: keys have no dashes before them; write {override}")
        raise RelposError(f"unknown flag {flag!r}.{nearest(flag, actions)}")
    if parsed.experimental_rerun:  # Hydra unpickles that file
        raise RelposError(
            "--experimental-rerun runs what a file says: repeat the command instead, "
            "which record.json has"
        )
    return flags, overrides


def rewritten(command: str, overrides: Sequence[str]) -> list[str]:
    """The overrides in Hydra's form. Overrides in that form stay as they are.

    Raises:
        RelposError: an argument has no key, or a wrong one; or a file that it names cannot be read.

    >>> rewritten("compare", ["it's", "examples=3"])
    ['examples=3', "network=['it\\\\'s']"]
    >>> rewritten("analyze", ["toeplitz", "network=FOLDER"])
    ['kind=toeplitz', 'network=FOLDER']
    >>> rewritten("order", ["pairs=mine.txt"])
    ['pairs=files', "pairs.path='mine.txt'"]
    >>> rewritten("status", ["table=demo", "steps=3"])
    ['table=demo', "overrides=['steps=3']"]
    >>> rewritten("finetune", ["task=rte", "network=albert-base-v2"])
    ['task=rte', 'network=albert-base-v2', 'recipe=finetune_base']
    """
    result = list(overrides)
    for rewrite in REWRITES:
        # Each rewrites the result of the ones before it.
        result = rewrite(command, result)
    return result


def _with_keys(command: str, overrides: list[str]) -> list[str]:
    """`relpos compare A B` → `network=[A,B]`, `relpos analyze toeplitz` → `kind=toeplitz`."""
    # A folder's name may have any sign, so that only words that begin like KEY= have a key.
    bare = [override for override in overrides if not KEYED.match(override)]
    if command in SINGLE:
        if len(bare) > 1:
            raise RelposError(
                f"{bare[1]}: relpos {command} takes one {SINGLE[command]}, and {bare[0]} is one"
            )
        keyed = {override: f"{SINGLE[command]}={override}" for override in bare}
        return [keyed.get(override, override) for override in overrides]
    if command not in LISTED or not bare:
        return overrides
    if any(key_of(override) == LISTED[command] for override in overrides):
        raise RelposError(
            f"{bare[0]}: give it by itself or in {LISTED[command]}=[…], not both ways"
        )
    return [
        *(override for override in overrides if override not in bare),
        f"{LISTED[command]}={spelled(bare)}",
    ]


def _with_homes(command: str, overrides: list[str]) -> list[str]:
    """`network=~/run` → `network='~/run'`, because Hydra allows no unquoted `~` in a word; shells
    may not replace it."""
    result = []
    for override in overrides:
        key, _, value = override.partition("=")
        if value[:1] == "~" and "," not in value:
            override = f"{key}={spelled(value)}"
        result.append(override)
    return result


def _with_overrides_of_rows(command: str, overrides: list[str]) -> list[str]:
    """`relpos reproduce table=NAME data.root=FOLDER` → `overrides=['data.root=FOLDER']` where the
    command has no such key."""
    if "overrides" not in keys_of(command):
        return overrides
    keys_of_commands = keys_of("reproduce") | keys_of("status") | {"hydra"}
    for override in overrides:
        if "=" not in override:
            raise RelposError(
                f"{override}: overrides have the form KEY=VALUE. Did you mean table={override}?"
            )
    row_overrides = [
        override for override in overrides if key_of(override).split(".")[0] not in keys_of_commands
    ]
    # Keys of rows may look like misspelled keys of the command, as `steps` like `stages`: only keys
    # that no command has are refused.
    row_keys = keys_of("pretrain") | keys_of("finetune") | {"pretrain", "finetune", "order"}
    for override in row_overrides:
        key = key_of(override).split(".")[0]
        if key not in row_keys and "Did you mean" in (hint := nearest(key, keys_of_commands)):
            raise RelposError(f"unknown key {key!r}.{hint}")
    if not row_overrides:
        return overrides
    if any(override.startswith("overrides=") for override in overrides):
        raise RelposError(
            f"{row_overrides[0]}: give overrides for the rows by themselves or in "
            f"overrides=[…], not both ways"
        )
    return [
        *(override for override in overrides if override not in row_overrides),
        f"overrides={spelled(row_overrides)}",
    ]


def _with_long_forms(command: str, overrides: list[str]) -> list[str]:
    """`pairs=PATH` → `pairs=files pairs.path=PATH`; `intermediate=none` → `intermediate.task=none`;
    `task=FILE.yaml` → overrides with its content, because Hydra finds options in `conf` only."""
    from_file: list[str] = []
    result: list[str] = []
    for override in overrides:
        key, _, value = override.partition("=")
        word = value.strip("'\"")
        short = SHORT.get(command, {}).get(key)
        # Words that do not look like a file are names of options, which may be misspelled.
        if (
            command == "order"
            and key == "pairs"
            and ("/" in word or word.endswith((".txt", ".jsonl")))
        ):
            result += ["pairs=files", f"pairs.path={spelled(word)}"]
        elif short and not value.startswith(
            "{"
        ):  # a whole group, {task: …}, is an override of its own
            result.append(f"{key}.{short}={value}")
        elif key == "task" and (of_file := _of_task_file(word)):
            from_file += of_file
        else:
            result.append(override)
    # The file's overrides come first, because the last value of a key counts, and typed keys go
    # before those of the file.
    return [*from_file, *result]


def _of_task_file(word: str) -> list[str]:
    """The overrides that stand for a task file; none for any other word.

    Raises:
        RelposError: it is a folder with one such file.
    """
    if word in options()["task"]:
        return []
    from relpos.data.own_task import is_task_file, read_task_file  # loads the readers of GLUE

    if is_task_file(word):
        content = read_task_file(word).items()
        return ["task=custom", *(f"task.{name}={spelled(value)}" for name, value in content)]
    files = sorted(expanded(word).glob("*.yaml"))
    if len(files) == 1:
        raise RelposError(f"unknown task {word!r}. Did you mean task={files[0]}?")
    return []


def _with_recipe(command: str, overrides: list[str]) -> list[str]:
    """Adds the recipe for its width to a network from a folder, unless a recipe is named.

    The default recipe, for `size=tiny`, would ruin a published checkpoint: its learning rate is 10
    to 25 times that of BERT-base.
    """
    values = {key_of(override): override.partition("=")[2] for override in overrides}
    start = values.get("network", "null")
    if command not in RECIPES or start == "null" or "recipe" in values:
        return overrides
    # All networks of a sweep get the recipe of the first, because Hydra splits the sweep later.
    first = start.strip("'\"") if start[:1] in ("'", '"') else start.partition(",")[0]
    return [*overrides, f"recipe={RECIPES[command].format(_size_of(first))}"]


def _size_of(name: str) -> str:
    """The preset size of similar width if the network is a folder; otherwise `base`, the size of
    most networks of the hub."""
    from relpos.train.weights import model_folder, read_architecture

    try:
        folder = model_folder(expanded(name))
    except RelposError:  # an unknown home folder, which the opener of the network will report
        return "base"
    if (folder / "model").is_dir():
        folder = folder / "model"
    if ":" in name and not folder.exists():  # a row of a table, whose runs are found later
        raise RelposError(
            f"network={name}: the recipe must be named, too, as in "
            f"recipe=finetune_small: it depends on the width"
        )
    # A hub id is not looked up: composing must work without a network connection.
    hidden = BASE
    with suppress(RelposError):  # a folder without a model, which its reader will report
        if form_of(folder) == "published":
            width = read_config(folder).get("hidden_size")
            if isinstance(width, int):
                hidden = width
        elif folder.is_dir():
            hidden = read_architecture(folder).size.hidden
    if hidden < 128:
        return "tiny"
    return "small" if hidden < 512 else "base"


REWRITES: tuple[Callable[[str, list[str]], list[str]], ...] = (
    _with_keys,
    _with_homes,
    _with_overrides_of_rows,
    _with_long_forms,
    _with_recipe,
)
"""Functions (command, overrides) → overrides, in the order in which they are applied."""


def spelled(value: object) -> str:
    """A value in the syntax of Hydra's overrides; quotes, backslashes before them and `${` are
    escaped."""
    if isinstance(value, list):
        return f"[{','.join(map(spelled, value))}]"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    text = re.sub(r"(?<!\\)\\*(?=\$\{)", lambda match: match[0] * 2 + "\\", str(value))
    text = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{text}'"
