"""What asks a process to stop is heard in the middle of any phase; benchmarks/signals.py tries all
of them."""

import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from linked import link_runs
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.process import end, handling, interrupt, omp_threads, on_stops, thread_variables
from relpos.runs.execute import execute
from relpos.runs.plan import plan

HALTING = """
import sys, time
import relpos.data.tokenizer, relpos.data.store
from relpos.cli import main

owner, attribute = eval(sys.argv[1])
before = getattr(owner, attribute)


def halting(*arguments, **options):
    before(*arguments, **options)
    print("there", flush=True)
    while True:  # in short sleeps: a signal that comes just before one is heard after it
        time.sleep(0.05)


setattr(owner, attribute, halting)
sys.argv = ["relpos", *sys.argv[2:]]
sys.exit(main())
"""
"""`relpos`, which halts once it has called a function that is given before its arguments."""
PRETRAIN = ["pretrain", "steps=2", "batch=4"]


@pytest.mark.parametrize(
    ("function", "number", "times", "stage", "before"),
    [
        pytest.param(
            "relpos.data.tokenizer, 'reservoir'",
            signal.SIGHUP,
            1,
            "tokenizer",
            ("toy",),
            marks=pytest.mark.full,
        ),
        ("relpos.data.store, 'portions'", signal.SIGTERM, 20, "store", ("toy", "tokenizer")),
    ],
)
def test_a_signal_is_one_line_and_128_with_its_number_however_often_it_comes(
    function, number, times, stage, before, prepared, tmp_path,
    python
):  # fmt: skip
    link_runs(prepared, tmp_path / "runs", before)
    process = subprocess.Popen(
        [python, "-c", HALTING, function, *PRETRAIN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        for _ in range(times):  # nothing where the process has ended
            process.send_signal(number)
            time.sleep(0.01)
        stderr = process.communicate()[1]
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert stderr.splitlines()[-1] == "relpos: interrupted; the same command goes on from here"
    assert "Traceback" not in stderr
    assert execute(plan(compose("pretrain", PRETRAIN[1:])).inputs[stage]).state == "finished"


def test_under_nohup_a_closed_terminal_is_no_reason_to_stop():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    on_stops(interrupt)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("value", "threads"), [("4,2", 4), ("4", 4), ("", None), (" 3 , 1", 3), ("0", None)]
)
def test_of_a_list_of_threads_the_outermost_level_counts(value, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert omp_threads() == threads
    assert thread_variables(7, asked=False)["MKL_NUM_THREADS"] == str(threads or 7)


def test_a_wrong_number_of_threads_is_one_line(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(RelposError, match="OMP_NUM_THREADS=many: a whole number is expected"):
        omp_threads()


def test_a_process_that_hangs_is_killed_after_a_stated_time(capfd):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    process.terminate()
    assert end(process, 0.2) == -signal.SIGKILL
    assert "has not ended 0 seconds after it was asked to: killed" in capfd.readouterr().err


def test_a_signal_in_an_import_interrupts_after_the_import(tmp_path, monkeypatch):
    """Libraries swallow KeyboardInterrupt there, and go on with half a module."""
    text = "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    pass\nelse:\n    whole = True\n"
    (tmp_path / "swallowing.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    def import_it() -> None:
        import_module("swallowing")
        time.sleep(60)

    with handling(interrupt), pytest.raises(KeyboardInterrupt):
        import_it()
    assert sys.modules.pop("swallowing").whole
