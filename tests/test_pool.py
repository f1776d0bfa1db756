"""A pool of processes applies functions to items."""

import operator
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from relpos.errors import RelposError
from relpos.files import replacing
from relpos.pool import pool
from relpos.process import handling, interrupt


def applied(function: Callable[[Any], Any], items: Iterable[Any], processes: int = 2) -> list[Any]:
    with handling(interrupt), pool(processes) as submit:
        return [future.result() for future in [submit(function, item) for item in items]]


def doubled(number: int) -> int:
    print(f"{number} on stdout")
    print(f"{number} on stderr", file=sys.stderr)
    return 2 * number


def half_write(path: Path, launcher: int) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half", encoding="utf-8")
        os.kill(launcher, signal.SIGINT)
        time.sleep(600)


def test_results_come_in_the_order_of_the_items(python, capsys):
    assert applied(doubled, range(5)) == [0, 2, 4, 6, 8]
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"{number} on stderr" for number in range(5)
    ]


def test_a_process_that_dies_is_one_line(python):
    with pytest.raises(
        RelposError, match="^its process ended with SIGKILL; the same command goes on$"
    ):
        applied(signal.raise_signal, [int(signal.SIGKILL), *[0] * 9], 1)


def refusing(number: int) -> None:
    print(f"{number} on stderr", file=sys.stderr)
    raise RelposError("a wrong word") if number else KeyError("a bug")


@pytest.mark.parametrize(
    ("number", "message", "printed"),
    [(7, "a wrong word", []), (0, "KeyError: 'a bug'", ["Traceback"])],
)
def test_a_function_that_fails_is_one_line_after_what_it_printed(
    python, capsys, number, message, printed
):
    with pytest.raises(RelposError, match=f"^{message}$"):
        applied(refusing, [number], 1)
    words = [
        line.split()[0] for line in capsys.readouterr().err.splitlines() if not line.startswith(" ")
    ]
    assert words == [str(number), *printed, *(["KeyError:"] if printed else [])]


def test_ctrl_c_stops_the_processes_and_leaves_nothing_half_written(python, tmp_path):
    items = [
        partial(half_write, tmp_path / "figures.json", os.getpid()),
        partial(time.sleep, 600),
        partial(time.sleep, 600),
    ]
    with pytest.raises(KeyboardInterrupt):
        applied(operator.call, items)
    assert list(tmp_path.iterdir()) == []


def test_a_process_whose_launcher_was_killed_ends_after_its_item_without_a_word(python):
    command = [python, "-m", "relpos.pool"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        process.stdin.write(pickle.dumps((abs, -1)))
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1
