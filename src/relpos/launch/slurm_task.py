"""`python -m relpos.launch.slurm_task JOB.json`: a worker as a task of a Slurm array, or one of its processes.

After SIGUSR2 (a preemption or the time limit is near) the task goes back into the queue. After SIGTERM it waits to be killed: a
task that ended by itself would count as completed, and Slurm would not start it again after a preemption.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from relpos.errors import say
from relpos.launch.jobs import Job
from relpos.launch.worker import interrupted
from relpos.process import STOPS, number_in
from relpos.runs.distributed import place
from relpos.when_imported import keep_transformers_out

PATIENCE = 600.0
"""Seconds after SIGTERM within which Slurm will have killed the task."""


def main(file: str) -> None:
    """Executes the run of this task's number and then, unless several processes share it, the others of the job."""
    job = Job.read(Path(file))
    assert job.mine is not None
    stopped = interrupted(replace(job, mine=[job.mine[number_in("SLURM_ARRAY_TASK_ID", 0)]]))
    if stopped is None and place() is None:
        stopped = interrupted(job)
    if stopped == signal.SIGUSR2 and number_in("SLURM_PROCID", 0) == 0:
        say("relpos: back into the queue")
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True, timeout=120)
    if stopped is not None:
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        time.sleep(PATIENCE)


if __name__ == "__main__":
    keep_transformers_out()
    main(sys.argv[1])
