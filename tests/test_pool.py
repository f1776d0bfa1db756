"""A pool of processes applies functions to items."""

import operator
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from relpos.errors import RelposError
from relpos.files import replacing
from relpos.pool import side_by_side


def environments(count: int = 2) -> list[dict[str, str]]:
    return [dict(os.environ)] * count


def doubled(number: int) -> int:
    print(f"{number} on stdout")
    print(f"{number} on stderr", file=sys.stderr)
    return 2 * number


def half_write(path: Path, launcher: int) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half", encoding="utf-8")
        os.kill(launcher, signal.SIGINT)
        time.sleep(600)


def test_results_come_in_the_order_of_the_items(
    python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert side_by_side(doubled, range(5), environments(), "") == [0, 2, 4, 6, 8]
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"{number} on stderr" for number in range(5)
    ]


def test_a_process_that_dies_is_one_line_that_names_its_item(python: str) -> None:
    with pytest.raises(
        RelposError, match="^9: its process ended with SIGKILL; the same command goes on$"
    ):
        side_by_side(signal.raise_signal, [int(signal.SIGKILL), *[0] * 9], environments(1), "")


def refusing(number: int) -> None:
    print(f"{number} on stderr", file=sys.stderr)
    raise RelposError("a wrong word") if number else KeyError("a bug")


@pytest.mark.parametrize(
    ("number", "said", "printed"),
    [(7, "7: a wrong word", []), (0, "0: KeyError: 'a bug'", ["Traceback"])],
)
def test_a_function_that_fails_is_one_line_after_what_it_printed(
    python: str, capsys: pytest.CaptureFixture[str], number: int, said: str, printed: list[str]
) -> None:
    with pytest.raises(RelposError, match=f"^{said}$"):
        side_by_side(refusing, [number], environments(1), "")
    words = [
        line.split()[0] for line in capsys.readouterr().err.splitlines() if not line.startswith(" ")
    ]
    assert words == [str(number), *printed, *(["KeyError:"] if printed else [])]


def test_ctrl_c_stops_the_processes_and_leaves_nothing_half_written(
    python: str, tmp_path: Path
) -> None:
    items = [
        partial(half_write, tmp_path / "figures.json", os.getpid()),
        partial(time.sleep, 600),
        partial(time.sleep, 600),
    ]
    with pytest.raises(KeyboardInterrupt):
        side_by_side(operator.call, items, environments(), "")
    assert list(tmp_path.iterdir()) == []


def test_a_process_whose_launcher_was_killed_ends_after_its_item_without_a_word(
    python: str,
) -> None:
    command = [python, "-m", "relpos.pool"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        process.stdin.write(pickle.dumps((abs, -1)))
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1
