"""A cluster that only keeps a queue: `sbatch`, `squeue` and `scancel` as shell scripts in front of the PATH."""

import json
from pathlib import Path

import pytest

SCRIPTS = {
    "scontrol": 'echo "$*" >> requeued',
    "sbatch": """
        [ -e refuses ] && { echo "Batch job submission failed: $(cat refuses)" >&2; exit 1; }
        number=$(($(cat last) + 1))
        echo $number > last
        array=$(sed -n 's/^#SBATCH --array=0-//p' "$2")
        seq -f "${number}_%g" 0 "$array" >> queue
        echo "$number;cluster"
    """,
    "squeue": """
        [ -e silent ] && { cat silent >&2; exit 1; }
        cat queue
    """,
    "scancel": """
        echo "$*" >> cancelled
        grep -vxF "$(printf '%s\\n' "$@")" queue > rest; mv rest queue
    """,
}


class Cluster:
    """Nothing is executed: tests say what became of the jobs and the runs.

    Args:
        folder: for its files.
        table: the folder of the table whose launches submit to it.
    """

    def __init__(self, folder: Path, table: Path) -> None:
        self.folder, self.table = folder, table
        (folder / "bin").mkdir(parents=True)
        for name, script in SCRIPTS.items():
            path = folder / "bin" / name
            path.write_text(f"#!/bin/sh\ncd {folder}\n{script}", encoding="utf-8")
            path.chmod(0o755)
        (folder / "last").write_text("0\n", encoding="utf-8")
        self.lose_jobs()

    @property
    def queue(self) -> list[str]:
        """Numbers of the tasks that wait or run."""
        return (self.folder / "queue").read_text(encoding="utf-8").split()

    @property
    def submitted(self) -> int:
        """How often sbatch took something."""
        return int((self.folder / "last").read_text(encoding="utf-8"))

    @property
    def cancelled(self) -> list[str]:
        """What scancel was told, a line a call."""
        path = self.folder / "cancelled"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def runs_in_queue(self) -> set[str]:
        """Identities of the runs that have a task in the queue, as the table's book says."""
        tasks: dict[str, str] = json.loads((self.table / "slurm.json").read_text(encoding="utf-8"))
        return {tasks[number] for number in self.queue if number in tasks}

    def lose_jobs(self) -> None:
        """All jobs end, whatever they were doing."""
        (self.folder / "queue").write_text("", encoding="utf-8")

    def fall_silent(self, why: str | None) -> None:
        """squeue fails with these words; None: it answers again."""
        self._switch("silent", why)

    def refuse(self, why: str | None) -> None:
        """sbatch fails with these words; None: it takes jobs again."""
        self._switch("refuses", why)

    def _switch(self, name: str, why: str | None) -> None:
        (self.folder / name).unlink(missing_ok=True)
        if why is not None:
            (self.folder / name).write_text(why, encoding="utf-8")


def start_cluster(folder: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose commands are the first on the PATH."""
    cluster = Cluster(folder, table)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
    return cluster
