"""A stand-in for `python` that starts in milliseconds: a copy of this process, which has imported
everything already.

Importing torch and Lightning takes seconds, and a test of launchers starts a dozen interpreters.
`Awake.python` is a script that is called as `python` is (`-m MODULE`, `-c CODE` or a file, with
arguments). It asks a server, which is a fork of the test's process, for a fork of its own that does
what was asked for, with the caller's environment, folder and standard streams. To the caller it is
that process: signals are passed on, it ends as that process ends, and when it is killed so is that
process.

What differs from a fresh interpreter: what the tests have imported and cached is there. .ci/run
(`RELPOS_FULL`) gives fresh ones to the tests marked slow.
"""

import gc
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

SCRIPT = """#!{python} -IS
import json, os, select, signal, socket, sys
passed_on = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # none in the middle of the request, and none lost
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
came, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)  # a handler in Python would wait for the end of a `recv` that begins just after its signal
for number in passed_on:
    signal.signal(number, lambda *_: None)
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
while server not in select.select([server, came], [], [])[0]:
    server.send(os.read(came, 16))  # the signals' numbers
status = int(server.recv(16) or -9)
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
os._exit(status)
"""
HANDLED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCHLD)


class Awake:
    """The server and its script.

    Args:
        folder: for the script and the server's socket; its path is short enough for an address (100
            letters).
    """

    def __init__(self, folder: Path) -> None:
        self.python = folder / "python"
        address = str(folder / "awake")
        self.python.write_text(
            SCRIPT.format(python=os.path.realpath(sys.executable), address=address),
            encoding="utf-8",
        )
        self.python.chmod(0o755)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        until, self.tether = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                _close_all_but(listener.fileno(), until)
                _serve(listener, until, str(self.python))
            finally:  # as in `_serve`
                os._exit(1)
        os.close(until)
        listener.close()

    def close(self) -> None:
        """Ends the server; what it has started goes on."""
        os.close(self.tether)
        os.kill(self.pid, signal.SIGKILL)  # whoever has been forked meanwhile holds the tether, too
        os.waitpid(self.pid, 0)


def _serve(listener: socket.socket, until: int, python: str) -> None:
    """Answers each caller with a process of its own, until the other end of `until` is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # a collection in a fork would otherwise touch, and so copy, every object that was there before
    gc.freeze()
    while until not in select.select([listener, until], [], [])[0]:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # children that have ended
                pass
        caller, _ = listener.accept()
        if not os.fork():
            try:
                os.close(until)
                listener.close()
                _answer(caller, python)
            finally:  # whatever went wrong: a fork of the test's process must not go on as if it were that one
                os._exit(1)
        caller.close()
    os._exit(0)


def _answer(caller: socket.socket, python: str) -> None:
    """Does what one caller asks for, in a process that is watched from here."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(caller, 8, 3)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        if not (part := caller.recv(1 << 20)):
            break
        request += part
    # the caller was killed while it was asking
    if not size or len(request) < int.from_bytes(size, "big"):
        return
    pid = os.fork()
    if not pid:
        caller.close()
        _become(streams, python, *json.loads(request))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    while ended not in select.select([ended, caller], [], [])[0]:
        asked = caller.recv(1)
        os.kill(pid, asked[0] if asked else signal.SIGKILL)
        if not asked:
            break
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):  # the caller is gone
        caller.sendall(str(status).encode())
    os._exit(0)


def _become(
    streams: list[int], python: str, arguments: list[str], folder: str, environment: dict[str, str]
) -> None:
    """`python ARGUMENTS…` in this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for handled in HANDLED:
        signal.signal(handled, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python does
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.executable = python
    _redirect_logging()
    if loggers := sys.modules.get("relpos.train.loggers"):
        # runs of Weights & Biases that the test's process has open are not this one's to close
        loggers._open.clear()
    status: Any = 1
    try:
        status = _run([argument for argument in arguments if argument not in ("-u", "-P")])
    except SystemExit as left:
        status = left.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if status is None else status if isinstance(status, int) else 1)


def _run(arguments: list[str]) -> None:
    kind, *rest = arguments
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


def _redirect_logging() -> None:
    loggers = [
        logging.getLogger(),
        *(
            log
            for log in logging.root.manager.loggerDict.values()
            if isinstance(log, logging.Logger)
        ),
    ]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        if type(handler) is logging.StreamHandler:
            # setStream would flush the stream before, which a test may have closed
            handler.stream = sys.stderr


def _close_all_but(*kept: int) -> None:
    """Closes the test's files: a pipe's end that stayed open here would never end."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with suppress(OSError):  # the folder's own
                os.close(number)
