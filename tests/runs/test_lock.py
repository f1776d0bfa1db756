"""A run is held by one process at a time, and the hold dies with its holder."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from relpos.runs.lock import claim

HOLD = """
import sys, time
from pathlib import Path
from relpos.runs.lock import claim

with claim(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_held_run_is_not_taken(tmp_path: Path) -> None:
    process = holder(tmp_path)
    try:
        with claim(tmp_path, wait=False) as held:
            assert not held
    finally:
        process.kill()
        process.wait()


def test_kill_minus_nine_frees_it(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    started = time.monotonic()
    with claim(tmp_path) as held:
        assert held
    assert time.monotonic() - started < 5
