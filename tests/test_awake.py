"""The stand-in for `python` behaves as the process that it stands for."""

import io
import logging
import signal
import socket
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from awake import Awake


def started(python: str, code: str, *arguments: str) -> subprocess.Popen[str]:
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([python, "-c", code, *arguments], text=True, **streams)  # type: ignore[call-overload, no-any-return]


def test_arguments_streams_folder_and_status_are_the_callers(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = started(python, "import os, sys; print(sys.argv[1:], os.getcwd(), input()); sys.exit(3)", "a")
    assert process.communicate("line\n") == (f"['a'] {tmp_path} line\n", "")
    assert process.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_it_and_the_caller_ends_with_it(python: str, number: signal.Signals) -> None:
    handler = "lambda *_: sys.exit(7)" if number != signal.SIGKILL else "signal.SIG_DFL"
    code = f"import signal, sys, time; signal.signal({int(signal.SIGTERM)}, {handler}); print('on', flush=True)"
    code += "\nwhile True: time.sleep(0.1)"  # a signal just before a longer sleep would be heard after it
    process = started(python, code)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    said = process.communicate(timeout=400)[1]
    assert process.returncode == {signal.SIGTERM: 7, signal.SIGKILL: -9}.get(number, process.returncode), said
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)


@pytest.mark.parametrize("said", [b"", (100).to_bytes(8, "big") + b"[["], ids=["nothing", "half"])
def test_a_caller_that_is_killed_while_it_asks_is_forgotten(python: str, said: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(Path(python).with_name("awake")))
        if said:
            socket.send_fds(caller, [said[:8]], [0, 1, 2])
            caller.sendall(said[8:])
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(16) == b""  # whoever listened has ended
    assert started(python, "print('on')").communicate() == ("on\n", "")


def test_a_log_that_wrote_to_a_closed_stream_writes_to_the_callers() -> None:
    logger, handler = logging.getLogger("of an earlier test"), logging.StreamHandler(io.TextIOWrapper(io.BytesIO()))
    handler.stream.close()
    logger.addHandler(handler)
    with TemporaryDirectory() as folder:
        awake = Awake(Path(folder))
        logger.removeHandler(handler)
        process = started(str(awake.python), "import logging; logging.getLogger('of an earlier test').warning('heard')")
        assert process.communicate() == ("", "heard\n")
        awake.close()


def test_an_error_is_a_traceback_and_status_one(python: str) -> None:
    process = started(python, "1 / 0")
    assert process.communicate()[1].endswith("ZeroDivisionError: division by zero\n")
    assert process.returncode == 1


def test_a_process_that_kills_itself_is_seen_to(python: str) -> None:
    process = started(python, "import os; os.kill(os.getpid(), 9)")
    process.communicate()
    assert process.returncode == -9
