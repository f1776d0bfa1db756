"""What the Slurm engine does when jobs disappear, on a cluster that only keeps a queue."""

import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from launch.fake_slurm import Cluster, start_cluster
from relpos.errors import RelposError
from relpos.launch import slurm
from relpos.launch.guard import FRUITLESS
from relpos.launch.jobs import Job, Standing
from relpos.launch.slurm import SILENCE, Slurm, SlurmJobs, Unanswered
from relpos.runs import Run
from relpos.runs.lock import locked
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_experiment

pytest.importorskip("submitit")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a launch."""
    folder = tmp_path / "table" / "launch"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    return start_cluster(tmp_path / "cluster", folder.parent, monkeypatch)


def of_seed(seed: int) -> Run:
    return Run("pretrain", f"seed{seed}", {"seed": seed}, {"speed": {"devices": 1, "nodes": 1}})


@pytest.fixture
def run() -> Run:
    run = of_seed(0)
    run.path.mkdir(parents=True)
    return run


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two pre-trainings with two fine-tunings each; what all need is there."""
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))
    runs = runs_of(plan_table(load(str(write_experiment(tmp_path)))))
    for run in runs:
        if run.stage not in ("pretrain", "finetune"):
            run.update(state="finished")
    return runs


def start(runs: list[Run], folder: Path) -> SlurmJobs:
    jobs = Slurm().start(Standing(Job(runs)), folder)
    return jobs


def pretrainings(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.stage == "pretrain"]


def tunings(runs: list[Run], pretraining: Run) -> list[Run]:
    return [run for run in runs if run.inputs.get("start") is pretraining]


def identities(*runs: Run) -> set[str]:
    return {run.identity for run in runs}


def lose(jobs: SlurmJobs, cluster: Cluster) -> None:
    cluster.lose_jobs()
    jobs.poll()


def test_what_is_in_the_queue_is_not_submitted_again(run: Run, folder: Path, cluster: Cluster) -> None:
    start([run], folder).poll()
    start([run], folder.with_name("another launch")).poll()
    assert cluster.queue == ["1"]


def test_two_launches_of_one_table_keep_each_others_jobs_in_the_book(table: list[Run], folder: Path, cluster: Cluster) -> None:
    first, second = pretrainings(table)
    ours = start([first], folder)
    start([first, second], folder.with_name("another launch"))
    (cluster.folder / "queue").write_text("2\n", encoding="utf-8")  # the first job is lost
    ours.poll()
    assert cluster.queue == ["2", "3"]
    start([first, second], folder.with_name("a third"))
    assert cluster.queue == ["2", "3"]


def test_jobs_that_end_before_they_do_anything_end_the_launch(run: Run, folder: Path, cluster: Cluster) -> None:
    jobs = start([run], folder)
    for _ in range(FRUITLESS - 1):
        lose(jobs, cluster)
    assert cluster.submitted == FRUITLESS
    with pytest.raises(RelposError, match="jobs end before they start a run: see .*slurm"):
        lose(jobs, cluster)


def test_jobs_that_are_lost_at_work_are_submitted_again(run: Run, folder: Path, cluster: Cluster) -> None:
    """Whether the run's processes die too often is for `execute` to say."""
    jobs = start([run], folder)
    for _ in range(FRUITLESS + 2):
        run.begin()
        lose(jobs, cluster)
    assert cluster.submitted == 1 + FRUITLESS + 2
    run.fail("its process died")
    lose(jobs, cluster)
    assert cluster.queue == []


def test_many_jobs_lost_at_once_while_they_work_do_not_end_the_launch(table: list[Run], folder: Path, cluster: Cluster) -> None:
    jobs = start(table, folder)
    assert len(cluster.queue) > FRUITLESS
    pretrainings(table)[0].begin()
    lose(jobs, cluster)
    assert cluster.runs_in_queue() == identities(*(run for run in table if run.stage in ("pretrain", "finetune")))


def test_what_others_hold_waits_until_they_are_done(table: list[Run], folder: Path, cluster: Cluster) -> None:
    theirs, ours = pretrainings(table)
    theirs.update(state="running")
    with locked(theirs.path):
        jobs = start(table, folder)
        assert cluster.runs_in_queue() == identities(ours, *tunings(table, ours))
        for _ in range(FRUITLESS + 2):
            jobs.poll()
        assert cluster.runs_in_queue() == identities(ours, *tunings(table, ours))
    theirs.update(state="finished")
    jobs.poll()
    assert cluster.runs_in_queue() == identities(ours, *tunings(table, ours), *tunings(table, theirs))


def test_what_another_launch_leaves_undone_is_submitted(table: list[Run], folder: Path, cluster: Cluster) -> None:
    theirs, _ = pretrainings(table)
    theirs.update(state="running")
    with locked(theirs.path):
        jobs = start(table, folder)
    jobs.poll()
    assert identities(theirs, *tunings(table, theirs)) <= cluster.runs_in_queue()


def test_jobs_that_others_leave_nothing_to_do_are_no_loss(table: list[Run], folder: Path, cluster: Cluster) -> None:
    """Both launches submit a pre-training; the other one's job takes it, and all of ours end at once."""
    theirs, _ = pretrainings(table)
    wanted = [run for run in table if run is theirs or run in tunings(table, theirs)]
    jobs = start(wanted, folder)
    for _ in range(FRUITLESS + 2):
        assert cluster.runs_in_queue() == identities(*wanted)
        theirs.update(state="running")
        with locked(theirs.path):
            lose(jobs, cluster)
            assert cluster.queue == []
        theirs.update(state="interrupted")
        jobs.poll()
    theirs.update(state="finished")
    lose(jobs, cluster)
    assert cluster.runs_in_queue() == identities(*tunings(table, theirs))


def test_a_launch_that_leaves_says_what_it_did_not_submit(
    run: Run, folder: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    run.update(state="running")
    with locked(run.path):
        assert Slurm(watch=False).start(Standing(Job([run])), folder) is None
    assert cluster.submitted == 0
    assert "give the same command again when they are done" in capsys.readouterr().err


def test_a_queue_without_an_answer_is_asked_again(
    run: Run, folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(slurm, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    jobs = start([run], folder)
    for _ in range(2):
        capsys.readouterr()
        cluster.fall_silent("slurm_load_jobs error: Socket timed out")
        for _ in range(9):
            clock[0] += SILENCE / 9
            jobs.poll()
        (line,) = capsys.readouterr().err.splitlines()
        assert "Socket timed out" in line
        cluster.fall_silent(None)
        jobs.poll()  # an answer; then the patience begins anew
    cluster.fall_silent("slurm_load_jobs error: Socket timed out")
    jobs.poll()
    clock[0] += SILENCE + 1
    with pytest.raises(RelposError, match="Socket timed out"):
        jobs.poll()


def test_what_sbatch_refuses_is_submitted_later(run: Run, folder: Path, cluster: Cluster) -> None:
    jobs = start([run], folder)
    cluster.refuse("Socket timed out")
    lose(jobs, cluster)
    jobs.poll()
    assert cluster.queue == []
    cluster.refuse(None)
    jobs.poll()
    assert cluster.runs_in_queue() == identities(run)


def test_squeue_says_why(cluster: Cluster) -> None:
    cluster.fall_silent("\n")
    with pytest.raises(Unanswered, match="squeue: Command .* exit status 1"):
        slurm.in_queue()


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_jobs_are_cancelled_at_the_end(error: BaseException | None, run: Run, folder: Path, cluster: Cluster) -> None:
    jobs = start([run], folder)
    end(jobs, error)
    assert (cluster.cancelled, cluster.queue) == (["1"], [])


def test_jobs_are_cancelled_where_squeue_does_not_answer(
    run: Run, folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "PATIENCE", 0.0)
    jobs = start([run], folder)
    cluster.fall_silent("Socket timed out")
    end(jobs, KeyboardInterrupt())
    assert cluster.cancelled == ["1"]


def test_jobs_outlive_a_launcher_with_an_error(
    run: Run, folder: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    end(start([run], folder), RelposError("the disk is full"))
    assert (cluster.cancelled, cluster.queue) == ([], ["1"])
    assert "the same command goes on with them" in capsys.readouterr().err


def end(jobs: SlurmJobs, error: BaseException | None) -> None:
    """As the launcher does, on its way out because of the error or without one."""
    with suppress(RelposError, KeyboardInterrupt):
        try:
            if error:
                raise error
        finally:
            jobs.shutdown()


def test_a_job_keeps_its_file(run: Run, folder: Path, cluster: Cluster) -> None:
    """It may wait in the queue while others of its kind are submitted again."""
    other = of_seed(1)
    other.update(state="running")
    with locked(other.path):
        jobs = start([run, other], folder)
    other.update(state="interrupted")
    jobs.poll()
    assert cluster.queue == ["1", "2"]
    mine = [json.loads(file.read_text(encoding="utf-8"))["mine"] for file in folder.glob("pretrain-*.json")]
    assert sorted(mine) == sorted([[run.identity], [other.identity]])
