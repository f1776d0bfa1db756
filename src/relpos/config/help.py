"""The text of `relpos COMMAND --help`: groups with their options, then every dial with its value
and its comment in `conf`."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence

import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf, open_dict

from relpos.config.arguments import rewritten
from relpos.config.check import one_line
from relpos.config.conf import (
    based_on,
    commands,
    conf_dir,
    conf_file,
    groups_of,
    options,
    package_of,
)

WIDTH = 118
LINE = re.compile(r"(?P<indent> *)(?P<key>[\w-]+):(?P<value>.*)")
FOOTER = """
An override chooses an option (position=composite) or turns a dial (steps=1000); -m sweeps over commas (seed=1,2).
RELPOS_RUNS is where runs go (./runs), RELPOS_DATA where data lies. --cfg job --resolve prints the whole configuration."""


def help_of(command: str, overrides: Sequence[str] = ()) -> str:
    """The text for a command, with the values of its keys after these overrides."""
    overrides = rewritten(command, overrides)
    with one_line(command, overrides), initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose(command, overrides=overrides, return_hydra_config=True)
    choices = {
        name: str(option)
        for name, option in cfg.hydra.runtime.choices.items()
        if not name.startswith("hydra/")
    }
    with open_dict(cfg):
        del cfg["hydra"]
    phrases = dict(_phrases(_text(command)))
    for name in (key for key in cfg if key in commands()):  # a fine-tuning has keys pretrain.…
        phrases |= {f"{name}.{key}": phrase for key, phrase in _phrases(_text(name))}
    for name, option in choices.items():
        # After the command's own comments, because the option's comment on its key is more exact.
        phrases |= dict(_group_phrases(name, option))
    says, example = commands()[command]
    lines = [f"relpos {command}: {says}", f"for example: relpos {command} {example}", ""]
    if groups := [name for name in groups_of(command) if name in options()]:
        lines += ["Groups with the option chosen, and all options:", ""]
        for name in groups:
            lines += _group(name, choices.get(name, "[]"))
        lines.append("")
    # Lines are not broken, because a continuation has no key and would not be shown.
    dials = yaml.dump(OmegaConf.to_container(cfg), Dumper=_Dumper, sort_keys=False, width=math.inf)
    return "\n".join([*lines, "Dials and their values:", "", *_dials(dials, phrases), FOOTER])


def _text(name: str) -> str:
    return (conf_dir() / f"{name}.yaml").read_text(encoding="utf-8")


class _Dumper(yaml.SafeDumper):
    """Writes a list on one line."""


_Dumper.add_representer(
    list,
    lambda dumper, items: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", items, flow_style=True
    ),
)


def _group(name: str, option: str) -> list[str]:
    head = f"  {name + '=' + option:<20} "
    return textwrap.wrap(
        ", ".join(options()[name]),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
    )


def _group_phrases(name: str, option: str) -> Iterator[tuple[str, str]]:
    """(dotted key, phrase) for a group's keys; those of `recipe@pretrain.recipe` are below
    `pretrain.recipe`.

    The chosen option's file comes last and so decides, after its defaults. The group's other files
    of the same class come before them, so that a key needs a comment in one file only. In another
    class a key may mean something else.
    """
    group, _, place = name.partition("@")
    place = place or package_of(group, option)
    # An option of `--config-dir` has no file in `conf`.
    content = conf_file(f"{group}/{option}") if option in options()[group] else {}
    deciding = [*based_on(content), option]
    target = content.get("_target_")
    alike = [
        name for name in options()[group] if conf_file(f"{group}/{name}").get("_target_") == target
    ]
    # First the other options in the order of their names, then those that decide.
    names = sorted(set(alike).difference(deciding)) + [name for name in deciding if name in alike]
    for file in names:
        for key, phrase in _phrases(_text(f"{group}/{file}")):
            yield f"{place}.{key}", phrase


def _phrases(text: str) -> Iterator[tuple[str, str]]:
    """Key → the comment behind it."""
    for path, _, value in _keys(text):
        before, mark, phrase = value.partition(" #")
        if mark and before.count('"') % 2 == 0:
            yield path, phrase.strip()


def _dials(text: str, phrases: dict[str, str]) -> Iterator[str]:
    for path, line, _ in _keys(text):
        # This key tells Hydra how to call the class; it is no dial.
        if not path.endswith("_partial_"):
            yield f"{line:<36} # {phrases[path]}" if path in phrases else line


def _keys(text: str) -> Iterator[tuple[str, str, str]]:
    """(dotted key, line, text after the colon) of each line of YAML that has a key."""
    above: dict[int, str] = {}
    for line in text.splitlines():
        if match := LINE.fullmatch(line):
            indent = len(match["indent"])
            above = {depth: key for depth, key in above.items() if depth < indent}
            above[indent] = match["key"]
            yield ".".join(above.values()), line, match["value"]
