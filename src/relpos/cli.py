"""The command line. A subcommand is a primary configuration in `conf` and a file in `commands/`;
Hydra does overrides and sweeps.

Nothing heavy is imported before a subcommand is known: `relpos --help` answers at once.
"""

from __future__ import annotations

import errno
import io
import math
import os
import select
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from relpos.config.conf import commands, key_of
from relpos.errors import RelposError, printable, refuse_unknown, say
from relpos.process import COMMAND, SAFE_PATH, interrupt, on_stops, without_keys
from relpos.when_imported import import_quickly

if TYPE_CHECKING:
    from omegaconf import DictConfig

UNREAD = 141
"""Exit status if stdout is closed before its end, as by `| head`: the one that a shell reports for
a program ended by SIGPIPE."""

NO_MEMORY = (
    "allocate memory", "failed to map segment", "out of memory", "bad_alloc", "can't start new "
                                                                              "thread",
    "could not create a primitive", "could not create a memory object",
)  # fmt: skip
"""Words in the messages of torch, oneDNN, Python and the system where memory runs out; the errors
are of various types."""

HELP = """relpos: how should a Transformer encoder know the order of its tokens?

usage: relpos COMMAND [KEY=VALUE …] [-m KEY=A,B,C …]

{commands}

relpos COMMAND --help shows the groups, their options and what each dial does. eval "$(relpos -sc install=bash)"
lets bash complete them. Runs go to $RELPOS_RUNS (./runs); data lie in $RELPOS_DATA.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `relpos ARGV`; returns the exit status.

    What the user or the machine is to blame for (see `_line`) is one line on stderr and status 1. A
    signal that asks to stop gives 128 and its number.
    """
    try:
        if argv is None:  # this process is ours
            on_stops(interrupt)
            import_quickly()
            os.environ[SAFE_PATH] = "1"  # for processes that others start, as launchers of sweeps
        return _status(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stop:
        if argv is None:
            # until the end, where Python would let further signals kill the process
            on_stops(signal.SIG_IGN)
        _say("interrupted; the same command goes on from here")
        return 128 + next(iter(stop.args), signal.SIGINT)


def _status(arguments: list[str]) -> int:
    """The exit status of a command that nobody has interrupted; an error is printed."""
    try:
        status = _main(arguments)
        sys.stdout.flush()
        return status
    except Exception as error:
        if isinstance(error, OSError) and sys.stdout:
            unread = _is_unread(error)
            # Not only of a broken pipe: after a failed write Python would try once more at its end,
            # and complain.
            try:
                sys.stdout.flush()
            except OSError:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, sys.stdout.fileno())
                os.close(nowhere)
            if unread:
                return UNREAD
        line = _line(error)
        if line is None:  # among others a pipe to a process of ours that breaks
            raise
        for word, shown in zip(arguments, without_keys(arguments), strict=True):
            # A message goes into logs, too, where keys do not belong.
            if value := word.removeprefix(shown.removesuffix("…")):
                line = line.replace(f"={value}", "=…")
        _say(line)
        return 1


def _line(error: Exception) -> str | None:
    """The line that tells the user of an error: a RelposError, a file that the system refuses, a
    full disk, too little memory.

    None for any other: it is a bug, and is shown with its traceback.
    """
    if isinstance(error, RelposError):
        return str(error)
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FileNotFoundError):  # of os.getcwd, which names no file
        return "the working directory is gone"
    # A stream has no file name.
    of_stream = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    if isinstance(error, OSError) and error.errno in of_stream:
        return f"cannot write standard output or a file: {error.strerror}"
    return None


def _say(text: str) -> None:
    """`relpos: TEXT` on stderr, in one line that fits on a screen."""
    line = " ".join(printable(text).splitlines())
    if len(line) >= 3000:
        line = f"{line[:1000]} … {line[-1000:]}"
    with suppress(OSError):  # the terminal is gone
        say(f"relpos: {line}")


def _is_unread(error: Exception) -> bool:
    """Whether an error says that nobody reads standard output any more, as in `relpos … | head`."""
    if not isinstance(error, BrokenPipeError):
        return False
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError):  # no file of the system
        return False
    # A failed write may have emptied the buffer, so that another one would succeed: the system
    # knows. It reports errors unasked.
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _main(arguments: list[str]) -> int:
    from importlib.metadata import version

    # stderr is closed: the next file opened would get its number, and what libraries write to it
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        raise RelposError("standard output is closed; >/dev/null drops what is printed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # ± and Δ become ? where the terminal has no such letters
            stream.reconfigure(errors="replace")
    for argument in arguments:
        if argument.encode(errors="ignore").decode() != argument:
            raise RelposError(f"{argument!a}: UTF-8 is expected")
    if arguments[:1] == ["help"]:  # of a command, or of all
        arguments = [*arguments[1:2], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = (
            f"  {name:<13} {summary:<46} relpos {name} {example}"
            for name, (summary, example) in commands().items()
        )
        print(HELP.format(commands="\n".join(lines)), end="")
        return 0
    if arguments[0] == "--version":
        print("relpos", version("relpos"))
        return 0
    if arguments[0] in ("-sc", "--shell-completion"):
        # Hydra's script asks with the whole line; its second word is the command that knows what
        # may follow.
        name, _, line = os.getenv("COMP_LINE", "relpos pretrain ").partition(" ")
        command, space, arguments_of_command = line.lstrip().partition(" ")
        if not space:
            print(*commands())
            return 0
        os.environ["COMP_LINE"] = f"{name} {arguments_of_command}"
        arguments = [command, *arguments]
    refuse_unknown("unknown command", arguments[0], commands())
    os.environ[COMMAND] = shlex.join(["relpos", *without_keys(arguments)])
    return _run(arguments[0], arguments[1:])


def _run(command: str, arguments: list[str]) -> int:
    from relpos.config.arguments import flags_and_overrides, rewritten
    from relpos.config.compose import called
    from relpos.trust import trust_typed

    flags, overrides = flags_and_overrides(command, arguments)
    overrides = trust_typed(overrides)
    if {"-h", "--help"} & set(flags):
        from relpos.config.help import help_of

        print(help_of(command, overrides))
        return 0
    overrides = rewritten(command, overrides)
    if flags or any(key_of(override).startswith("hydra") for override in overrides):
        return _by_hydra(command, flags, overrides)
    sys.argv = [f"relpos {command}", *without_keys(overrides)]  # loggers of others write it down
    print(printable(called(command, overrides)))
    return 0


def _by_hydra(command: str, flags: list[str], overrides: list[str]) -> int:
    """What only Hydra does: sweeps, the user's own options, `--cfg`, settings of its own."""
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from relpos.config.check import one_line
    from relpos.config.compose import call, composed, resolved
    from relpos.config.conf import also_in, conf_dir
    from relpos.files import refuse_links
    from relpos.places import make_runs_root, runs_root

    # exceptions arrive here whole; `main` makes one line of them
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = [f"relpos {command}", *flags, *overrides]
    # Hydra's main returns nothing: what the commands return, or raise, is collected here.
    paths: list[str] = []
    errors: list[Exception] = []

    main_process = os.getpid()

    def task(_: DictConfig) -> float | None:
        """What a sweeper minimises: the figure that `metric` names; infinity where there is none
        because of an error."""
        if os.getpid() != main_process:  # a sweep's launcher has started this process
            import_quickly()
        sys.argv[1:] = without_keys(sys.argv[1:])  # which loggers of others write down
        try:
            settings = HydraConfig.get()
            own = [
                f"{source.schema}://{source.path}"
                for source in settings.runtime.config_sources
                if "command-line" in source.provider  # --config-dir, or hydra.searchpath
            ]
            with also_in(own):
                typed = OmegaConf.to_container(settings.overrides.task, resolve=False)
                content = composed(command, typed)  # type: ignore[arg-type]
                paths.append(str(call(command, content)))
            if os.getpid() != main_process:  # the main process will not see this list
                print(printable(paths[-1]))
            if not (metric := resolved(content).get("metric")):
                return None
            from relpos.runs.shelf import figure

            return figure(Path(paths[-1]), metric)
        except Exception as error:  # not passed on to Hydra, which would print a line of its own
            is_plain = _line(error) is not None or _is_unread(error)
            if not is_plain or os.getpid() != main_process:
                raise
            errors.append(error)
            return math.inf

    if {"-m", "--multirun"} & set(flags):
        # Hydra keeps a sweep there, and would answer with a traceback; or follow a link
        make_runs_root()
        refuse_links([runs_root() / "sweeps"])
    with one_line(command, overrides):
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)(task)()
    # Each path once: combinations of a sweep may describe the same run.
    for path in dict.fromkeys(paths):
        print(printable(path))
    # The other runs of a sweep went on behind the first error; each has its line, and what is wrong
    # in all of them has one.
    lines = list(dict.fromkeys(_line(error) or str(error) for error in reversed(errors)))
    for line in reversed(lines[1:]):
        _say(line)
    if errors:
        raise errors[-1]
    return 0


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` has put the working directory there, whose files may have come from anywhere
        sys.path.pop(0)
    sys.exit(main())
