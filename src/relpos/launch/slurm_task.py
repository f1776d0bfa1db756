"""What a Slurm job executes, once in each of its tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from relpos.errors import say
from relpos.process import thread_variables

PATIENCE = 600.0
"""Seconds after SIGTERM within which Slurm will have killed the job."""


def task(file: str, threads: int | None) -> None:
    """Works on a job; several tasks of one job are the processes of its run.

    After SIGUSR2 (a preemption or the time limit is near) the job goes back into the queue. After SIGTERM it waits to be killed: a
    job that ended by itself would count as completed, and Slurm would not start it again after a preemption.

    Args:
        file: the job's JSON file.
        threads: CPU threads, None: 1; unless OMP_NUM_THREADS says otherwise. Set before torch is loaded, which reads them once.
    """
    os.environ |= thread_variables(threads or 1, asked=threads is not None)
    from relpos.launch.jobs import Job
    from relpos.launch.worker import interrupted
    from relpos.when_imported import keep_transformers_out

    keep_transformers_out()
    number = interrupted(Job.read(Path(file)))
    if number == signal.SIGUSR2 and os.environ.get("SLURM_PROCID", "0") == "0":
        say("relpos: back into the queue")
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True, timeout=120)
    if number is not None:
        _wait_for_the_end()


def _wait_for_the_end() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(PATIENCE)
