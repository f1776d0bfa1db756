"""The command line. A subcommand is a primary configuration in `conf` and a file in `commands/`; Hydra does overrides and sweeps.

Nothing heavy is imported before a subcommand is known: `relpos --help` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TextIO

COMMANDS = {
    "data": ("text → tokenizer and token store", "data=files data.root=FOLDER"),
    "pretrain": ("masked language modelling of one encoder", "position=composite size=small"),
    "finetune": ("one task, of GLUE or your own, on top of it", "task=rte position=composite size=small"),
    "reproduce": ("an experiment file → its runs → its table", "table=demo"),
    "status": ("how a table stands, from another terminal", "table=demo"),
    "claims": ("the papers' claims, tested", "paper=chang2021"),
    "params": ("count parameters, as JSON", "size=small position=composite"),
    "cost": ("operations, memory and time on this machine", "size=base position=composite steps=125000"),
    "draw": ("what a scheme adds to the scores, a figure", "position=tisa"),
    "analyze": ("what a trained network does with positions", "toeplitz network=FOLDER"),
    "figures": ("a paper's figures, from the runs there are", "wennberg2021"),
    "length": ("held-out loss at other lengths", "network=FOLDER"),
    "order": ("how much order a network knows", "network=FOLDER"),
    "fill": ("what a network puts in place of [MASK]", '"the cat [MASK] on the mat" network=FOLDER'),
    "score": ("how probable a text is, token by token", '"the cat sat on the mat" network=FOLDER'),
    "merge": ("runs of other machines → this runs folder", "FOLDER FOLDER"),
    "compare": ("runs beside each other on one page", "FOLDER FOLDER"),
    "export": ("a run → a folder of Hugging Face", "network=FOLDER to=FOLDER"),
    "submit": ("a row → the zip for the GLUE server", "table=NAME row=composite"),
    "record-scores": ("what that server answered → the table", "table=NAME row=composite cola=…"),
    "dashboard": ("a table's Weights & Biases workspace", "table=NAME"),
}
"""Subcommand → what it does, and example arguments."""

UNREAD = 141
"""Exit status where nobody reads stdout to its end: that of a program which SIGPIPE ends, under a shell."""

HELP = """relpos: how should a Transformer encoder know the order of its tokens?

usage: relpos COMMAND [KEY=VALUE …] [-m KEY=A,B,C …]

{commands}

relpos COMMAND --help shows the groups, their options and what each dial does. relpos --completion prints a script for bash:
eval "$(relpos --completion)". Runs go to $RELPOS_RUNS (./runs); data lie in $RELPOS_DATA.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `relpos ARGV`; returns the exit status. Mistakes of input are one line on stderr and status 1."""
    try:
        status = _main(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread(sys.stdout):  # another pipe, to a process of ours
            raise
        return UNREAD
    return status


def _is_unread(stream: TextIO) -> bool:
    """Whether nobody reads the stream any more, as in `relpos … | head`; what it still holds is then dropped."""
    try:
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return True
    return False


def _main(argv: Sequence[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # ± and Δ become ? where the terminal has no such letters
    if argv is None:  # this process is ours
        from relpos.when_imported import keep_transformers_out

        keep_transformers_out()
        os.environ["PYTHONSAFEPATH"] = "1"  # a file of the working directory is no module of the workers that are started with -m
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = (f"  {name:<13} {what:<43} relpos {name} {example}" for name, (what, example) in COMMANDS.items())
        print(HELP.format(commands="\n".join(lines)), end="")
        return 0
    if arguments[0] in ("--version", "--completion"):
        print(_version() if arguments[0] == "--version" else _completion(), end="")
        return 0
    from relpos.errors import RelposError, nearest

    try:
        if arguments[0] not in COMMANDS:
            raise RelposError(f"unknown command {arguments[0]!r}.{nearest(arguments[0], COMMANDS)}")
        return _run(arguments[0], arguments[1:])
    except RelposError as error:
        print(f"relpos: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("relpos: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _run(command: str, arguments: list[str]) -> int:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from relpos.config.arguments import flags_and_overrides, rewritten
    from relpos.config.check import check, one_line, targets
    from relpos.config.conf import conf_dir
    from relpos.errors import RelposError
    from relpos.runs.run import make_runs_root
    from relpos.trust import asked, outside, trust

    flags, overrides = flags_and_overrides(arguments)
    overrides = asked(overrides)
    if {"-h", "--help"} & set(flags):
        from relpos.config.help import help_of

        print(help_of(command, overrides))
        return 0
    overrides = rewritten(command, overrides)
    if command in ("reproduce", "status") and not flags and not any(override.startswith("table=") for override in overrides):
        raise RelposError(f"table must be given, as in: relpos {command} table=demo")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions arrive here whole; `main` makes one line of them
    sys.argv = [f"relpos {command}", *flags, *overrides]
    paths: list[str] = []
    errors: list[RelposError] = []

    main_process = os.getpid()

    def task(cfg: Any) -> None:
        try:
            typed = _typed(HydraConfig.get())
            if any("hydra.searchpath=" in override for override in typed):  # the user's own option files
                plain = OmegaConf.to_container(cfg, resolve=False)
                trust(*outside(node["_target_"] for _, node in targets(plain)))
            with one_line(command, typed):
                values: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
            check(values, command, typed)
            paths.append(str(_command(command)(cfg)))
            if os.getpid() != main_process:  # a sweep's launcher runs it elsewhere; the main process will not see this list
                print(paths[-1])
        except RelposError as error:  # not passed on to Hydra, which would print a traceback
            errors.append(error)
            if os.getpid() != main_process:
                raise

    if {"-m", "--multirun"} & set(flags):
        make_runs_root()  # Hydra keeps a sweep there, and would answer with a traceback
    with one_line(command, overrides):
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)(task)()
    for path in dict.fromkeys(paths):
        print(path)
    for error in errors[:-1]:
        print(f"relpos: {error}", file=sys.stderr)
    if errors:
        raise errors[-1]
    return 0


def _command(name: str) -> Callable[[Any], Any]:
    """`relpos record-scores` is the function `record_scores` of `relpos.commands.record_scores`."""
    name = name.replace("-", "_")
    function: Callable[[Any], Any] = getattr(import_module(f"relpos.commands.{name}"), name)
    return function


def _typed(hydra_cfg: Any) -> list[str]:
    """The overrides as typed, and where the user's own option files lie (`--config-dir`)."""
    from omegaconf import OmegaConf

    overrides = OmegaConf.to_container(hydra_cfg.overrides, resolve=False)["task"]  # type: ignore[call-overload, index]
    folders = [source.path for source in hydra_cfg.runtime.config_sources if source.provider == "command-line"]
    return [*overrides, *(f"hydra.searchpath=[file://{path}]" for path in folders)]


def _version() -> str:
    from importlib.metadata import version

    return f"relpos {version('relpos')}\n"


def _completion() -> str:
    from importlib.resources import files

    return files("relpos").joinpath("completion.bash").read_text(encoding="utf-8")


if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path.pop(0)  # `python -m` has put the working directory there, whose files may have come from anywhere
    sys.exit(main())
