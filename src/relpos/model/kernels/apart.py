"""Trials of programs that may end their process, in a process of their own. What came of one is kept, for each version.

An illegal access or an assertion in a compiler ends the process, and any other error of CUDA stays with it: a training must not be
what tries a program on a GPU for the first time. The record of a trial is [kept](kept.py) in the user's cache folder, so that the
next training compiles and waits for nothing.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from relpos.errors import say
from relpos.model.kernels import kept

SUFFIX = ".txt"


def tried(trial: Callable[..., str | None], *arguments: Any) -> str | None:
    """What `trial(*arguments)` finds wrong on this machine's GPU, None: nothing. What ends its process is wrong, too.

    Args:
        trial: a function of a module, which pickle finds by its name.
        arguments: what tells this trial from others, by `repr`.
    """
    words = (trial.__qualname__, *map(repr, arguments), *_versions())
    stem, folder = f"trial-{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:16]}", kept.folder()
    try:
        with kept.own_folder(folder, make=True) as place, FileLock(folder / f"{stem}.lock"):
            known = kept.read(place, stem, SUFFIX)
            if known is None:
                fault = _apart(trial, *arguments)
                # A GPU that has no memory left today may have it tomorrow.
                if fault is None or "OutOfMemoryError" not in fault:
                    kept.write(place, stem, (fault or "").encode(), SUFFIX)
                return fault
            return known.decode() or None
    except OSError as error:
        say(f"relpos: what programs for the GPU were found right cannot be kept: {error}")
        return _apart(trial, *arguments)


def _apart(trial: Callable[..., str | None], *arguments: Any) -> str | None:
    """Calls the trial in a process of its own; here where there can be none, as on a GPU that one process alone may use."""
    say("relpos: trying programs on this GPU in a process of their own, once: some ten seconds")
    command = [sys.executable, "-P", "-c", f"from {__name__} import answer; answer()"]
    done = subprocess.run(command, input=pickle.dumps((trial, arguments)), capture_output=True, check=False)
    if done.returncode < 0:
        return f"the process that tried it was ended by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return trial(*arguments)
    fault: str | None = json.loads(done.stdout.splitlines()[-1])
    return fault


def answer() -> None:
    """Calls the trial that comes on stdin and prints what it finds wrong."""
    if torch.cuda.is_available():
        torch.cuda.init()  # where this process gets no GPU, it ends here, and finds nothing wrong
    trial, arguments = pickle.load(sys.stdin.buffer)
    print(json.dumps(trial(*arguments)))


@cache
def _versions() -> tuple[str, ...]:
    """What a program's result may depend on: the network's code, torch, Triton and the GPU."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    code = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    gpu = (torch.cuda.get_device_name(), str(torch.cuda.get_device_capability())) if torch.cuda.is_available() else ()
    return code, torch.__version__, triton, *gpu
