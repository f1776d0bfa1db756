"""Errors of a configuration, each in one line with the nearest right word.

`check` finds two mistakes that Hydra allows: unknown keys as in `+typo=1`, and values of the wrong
kind. `one_line` rewrites the errors of Hydra and OmegaConf.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from traceback import walk_tb

from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import MarkedYAMLError

from relpos.config import quick
from relpos.config.conf import based_on, commands, conf_file, function_of, key_of, options
from relpos.errors import RelposError, nearest
from relpos.process import without_keys
from relpos.readers import Plain
from relpos.trust import mistakes, targets

NO_NAME = re.compile(
    r"null|true|false|[-+]?(nan|inf)|[-+.\d_]*|[-+.\d_]+e[-+]?\d+|\[.*|\{.*",
    re.IGNORECASE,
)
"""Values that cannot be the name of an option; Hydra answers them with a traceback."""
KEY = re.compile(r"[+]{0,2}[a-zA-Z_][\w./@:-]*")
HYDRA_GROUP = re.compile(r"hydra(/\w+)?")
EMPTY = re.compile(r"(['\"]?)\s*\1")
DIGITS = re.compile(r"\d{1000}")
LONGEST = 250
"""The most characters of an option's name; file systems allow no longer names."""
PLUGINS = {
    "hydra/sweeper/optuna": "hydra-optuna-sweeper",
    "hydra/sweeper/ax": "hydra-ax-sweeper",
    "hydra/sweeper/nevergrad": "hydra-nevergrad-sweeper",
    "hydra/launcher/joblib": "hydra-joblib-launcher",
    "hydra/launcher/submitit_local": "hydra-submitit-launcher",
    "hydra/launcher/submitit_slurm": "hydra-submitit-launcher",
    "hydra/launcher/ray": "hydra-ray-launcher",
    "hydra/launcher/rq": "hydra-rq-launcher",
}
"""Option → the package of Hydra's that contains it."""
ELSEWHERE = {"learning_rate": "lr", "gpus": "devices", "model": "size"}
"""Name of a key in other libraries → its name here."""
OF_TRAINER = {
    "accelerator": "speed.accelerator",
    "accumulate_grad_batches": "speed.microbatch",
    "callbacks": "callbacks",
    "default_root_dir": "RELPOS_RUNS",
    "deterministic": "speed.deterministic",
    "devices": "speed.devices",
    "enable_checkpointing": "checkpoint_every",
    "gradient_clip_val": "recipe.clip",
    "log_every_n_steps": "log_every",
    "logger": "logger",
    "max_epochs": "steps",
    "max_steps": "steps",
    "num_nodes": "speed.nodes",
    "precision": "precision",
    "strategy": "speed.devices",
    "val_check_interval": "evaluations",
}
"""Argument of Lightning's Trainer that relpos sets itself → the key of relpos for it."""
SEVERAL = {"callbacks"}
"""Groups with a list of options."""
SCHEME_KEYS = {"size", "block", "position", "conv", "k", "outside", "kernels"}
NETWORK_KEYS = {
    "pretrain": SCHEME_KEYS | {"vocabulary", "tokenizer"},
    # pretrain.steps=… and the like
    "finetune": SCHEME_KEYS | {"vocabulary", "tokenizer", "pretrain"},
    "analyze": SCHEME_KEYS,
    "params": SCHEME_KEYS | {"vocabulary"},
}
"""Command → first parts of the keys that define a new network and its pre-training."""


def check(config: Plain, command: str, overrides: Sequence[str]) -> None:
    """Refuses unknown keys, impossible values, and overrides about a network that comes from a
    folder.

    Raises:
        RelposError: the message names the key or override and, if there is one, the nearest right
            one.
    """
    # Hydra itself refuses other overrides of unknown keys.
    if added := [key_of(override) for override in overrides if override.startswith("+")]:
        keys = _known(command, [override for override in overrides if override[0] not in "+~"])
    for key in added:
        # checked by its constructor
        is_argument = any(key.startswith(f"{path}.") for path, _ in targets(config))
        if key.replace("/", ".") not in keys and not is_argument:
            raise _unknown_key(key, keys)
    errors: dict[str, RelposError] = {}
    for key, error in mistakes(config, function_of(command)):
        errors.setdefault(key, error)
    if errors:  # a typed key comes before one that has its value by interpolation
        typed = [key_of(override).replace("/", ".") for override in overrides]
        raise errors[next((key for key in typed if key in errors), next(iter(errors)))]
    refuse_overrides(command, overrides, config)


def refuse_overrides(command: str, overrides: Iterable[str], config: Plain) -> None:
    """Refuses overrides that have no effect on a network or a tokenizer from a file.

    Raises:
        RelposError: there is such an override beside `network=`, or one for the training of a
            tokenizer beside `tokenizer=FILE`.
    """
    for override in overrides if (config.get("tokenizer") or {}).get("file") else ():
        key = key_of(override)
        if key in ("vocabulary", "data.sample") or (
            key.startswith("tokenizer.") and key != "tokenizer.file"
        ):
            raise RelposError(
                f"{override}: the pieces come from tokenizer={config['tokenizer']['file']}, where "
                f"this changes nothing"
            )
    if not config.get("network"):
        return
    for override in overrides:
        key = key_of(override).replace("/", ".")
        # In recipe@pretrain.recipe=small the key follows the @.
        key = key.partition("@")[2] or key
        if key.split(".")[0] in NETWORK_KEYS.get(command, ()):
            hint = "override changes nothing"
            if key == "size" and command in ("pretrain", "finetune"):
                hint += "; recipe=… names the recipe by itself"
            raise RelposError(
                f"{override}: the network comes from network={config['network']}, where this {hint}"
            )


@contextmanager
def one_line(command: str, overrides: Sequence[str]) -> Iterator[None]:
    """Turns exceptions of Hydra and OmegaConf into a RelposError of one line."""
    for override in overrides:
        _check_form(override)
    try:
        yield
    # From the special to the general, as most of these classes are subclasses of HydraException.
    except OverrideParseException as error:
        raise RelposError(
            f"{error.override}: the value cannot be read. If it is a text with spaces or other "
            f"signs than letters, digits and "
            f"._-/:, it needs quotes of its own: \"{error.override.partition('=')[0]}='…'\""
        ) from error
    except MissingConfigException as error:
        raise RelposError(_unknown_option(str(error), command)) from error
    except MissingMandatoryValue as error:
        message = f"{error.full_key} must be given"
        if "." not in str(error.full_key):
            message += f", as in: relpos {command} {commands()[command][1]}"
        raise RelposError(message) from error
    except MarkedYAMLError as error:  # in an option file of `--config-dir`
        if not error.problem_mark:
            raise
        raise RelposError(
            f"{error.problem_mark.name}:{error.problem_mark.line + 1}: not YAML: {error.problem}"
        ) from error
    except (HydraException, OmegaConfBaseException) as error:
        if isinstance(error, ConfigCompositionException) and (
            key := re.search(r"Could not override '([^']+)'", str(error))
        ):
            # For a whole group, `first={shar: 0.5}`, the cause alone names the wrong key; elsewhere
            # it may end at the group.
            of_cause = str(getattr(error.__cause__, "full_key", ""))
            # The keys depend on the chosen options.
            choices = [override for override in overrides if key_of(override) in options()]
            raise _unknown_key(max(key[1], of_cause, key=len), _known(command, choices)) from error
        first = str(error).partition("\n")[0]
        if first.startswith("Ambiguous value"):
            first += ": -m sweeps over commas, and a list stands in brackets"
        raise RelposError(first) from error
    except (AttributeError, TypeError, ValueError) as error:
        # Hydra and OmegaConf raise these where a value is of another kind than its key.
        *_, (frame, _) = walk_tb(error.__traceback__)
        if frame.f_globals["__name__"].partition(".")[0] not in ("hydra", "omegaconf"):
            raise
        first = str(error).partition("\n")[0]
        words = ", ".join(without_keys(_left_to_hydra(command, overrides) or overrides))
        raise RelposError(f"{words}: {first}") from error


def _left_to_hydra(command: str, overrides: Sequence[str]) -> list[str]:
    """The overrides that Hydra alone understands, if at all."""
    choices = [override for override in overrides if key_of(override) in options().keys() - SEVERAL]
    result = []
    for override in overrides:
        try:
            quick.merged(command, [*choices, override])
        except quick.LeftToHydra:
            result.append(override)
    return result


def _check_form(override: str) -> None:
    """Refuses words that are no KEY=VALUE, and values that Hydra answers with a traceback."""
    key, equals, value = override.partition("=")
    if override.startswith("~"):
        raise RelposError(
            f"{override}: every key is needed; give it another value, "
            f"{key.lstrip('~') or 'KEY'}=VALUE"
        )
    if not equals or not KEY.fullmatch(key):
        raise RelposError(
            f"{override!r}: overrides have the form KEY=VALUE, without spaces around the ="
        )
    if DIGITS.search(value):  # Python reads no number of so many digits
        raise RelposError(f"{key}={value[:20]}…: a number of more than 1,000 digits")
    is_group = key in options().keys() - SEVERAL or (HYDRA_GROUP.fullmatch(key) and value != "null")
    if is_group and (NO_NAME.fullmatch(value) or max(map(len, value.split(","))) > LONGEST):
        raise RelposError(
            f"{override}: the name of an option is expected.{nearest('', options().get(key, ()))}"
        )
    if EMPTY.fullmatch(value):  # as of a variable of the shell that is not set
        raise RelposError(f"{override}: a value is expected behind the =; null means none")


def _unknown_key(key: str, keys: set[str]) -> RelposError:
    """The error for an unknown key, with the nearest right one or, if none is near, a list of the
    top level.

    The same key in another group is suggested first. Commands that open a trained network have no
    keys of a new one.
    """
    if "network" in keys and key.split(".")[0] in SCHEME_KEYS - keys:
        return RelposError(
            f"{key}: the network comes from network=, where this override changes nothing"
        )
    group, _, inside = key.partition(".")
    if group == "trainer" and inside in OF_TRAINER:
        return RelposError(f"{key}: relpos does this itself; its key is {OF_TRAINER[inside]}")
    first = inside.split(".")[0]
    owners = [
        option for option in options().get(group, ()) if first in _keys_of_option(group, option)
    ]
    if owners and f"{group}.{inside}" not in keys:
        choices = " or ".join(f"{group}={option}" for option in owners[:5])
        return RelposError(f"{key}: a key of {choices}, which must be chosen beside it")
    last = key.rpartition(".")[2]
    last = ELSEWHERE.get(last, last)
    elsewhere = sorted(path for path in keys if path.rpartition(".")[2] == last)
    if elsewhere:
        return RelposError(
            f"unknown key {key!r}. Did you mean {' or '.join(map(repr, elsewhere[:3]))}?"
        )
    tail = nearest(key, keys)
    if "Did you mean" not in tail:
        tail = nearest(key, {path for path in keys if "." not in path})
    return RelposError(f"unknown key {key!r}.{tail}")


def _keys_of_option(group: str, option: str) -> set[str]:
    """The keys of an option of a group, and of the options on which it is based."""
    content = conf_file(f"{group}/{option}")
    bases = (_keys_of_option(group, name) for name in based_on(content))
    return {*content}.union(*bases) - {"defaults"}


def _known(command: str, overrides: Sequence[str]) -> set[str]:
    """The dotted keys of a configuration; without the overrides if only Hydra can compose it with
    them."""
    try:
        return set(_keys(quick.merged(command, overrides)))
    except quick.LeftToHydra:
        return set(_keys(quick.merged(command, ())))


def _unknown_option(message: str, command: str) -> str:
    # Hydra's exceptions have no fields for group and option.
    match = re.search(r"Could not (?:find|load) '([^']+)'", message)
    if not match:  # --config-name and --config-path
        return message.partition("\n")[0]
    group, _, option = match[1].rpartition("/")
    if (plugin := PLUGINS.get(match[1])) is not None:
        return f"{group}={option} is not installed: pip install {plugin}"
    if choices := re.findall(r"^\t(\S+)$", message, flags=re.M) or options().get(group):
        return f"unknown {group} {option!r}.{nearest(option, choices)}"
    name = group or option
    return f"unknown group {name!r}.{nearest(name, options())}"


def _keys(node: object, prefix: str = "") -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield f"{prefix}{key}"
            yield from _keys(value, f"{prefix}{key}.")
