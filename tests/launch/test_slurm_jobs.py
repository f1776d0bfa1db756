"""What the Slurm engine submits, and what it does when tasks disappear, on a cluster that only keeps a queue."""

import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launch.fake_slurm import Cluster, start_cluster
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.launch import slurm, worker
from relpos.launch.engine import FRUITLESS
from relpos.launch.jobs import Job, Standing
from relpos.launch.slurm import SILENCE, Slurm, SlurmTasks, Unanswered
from relpos.process import interruptible
from relpos.ranges import shown
from relpos.runs.lock import locked
from relpos.runs.run import Run
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from relpos.trust import instantiate
from tables.small_data import write_experiment


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


def of_seed(seed: int, **speed: int) -> Run:
    return Run("pretrain", f"seed{seed}", {"seed": seed}, {"speed": {"devices": 1, "nodes": 1} | speed})


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


def start(runs: list[Run], folder: Path, **engine: Any) -> SlurmTasks:
    folder.mkdir(exist_ok=True)
    return Slurm(**engine).start(Standing(Job(runs)), folder)


def pretrainings(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.stage == "pretrain"]


def tunings(runs: list[Run], pretraining: Run) -> list[Run]:
    return [run for run in runs if run.inputs.get("start") is pretraining]


def identities(*runs: Run) -> set[str]:
    return {run.identity for run in runs}


def lose(tasks: SlurmTasks, cluster: Cluster) -> None:
    cluster.lose_jobs()
    tasks.poll()


def mine(folder: Path, number: int) -> list[str]:
    """The runs that an array may execute: first those of its tasks, by their numbers."""
    return [run.identity for run in Job.read(folder / f"job-{number}.json").runs]


def test_what_is_ready_gets_a_task_and_a_finished_run_makes_more_ready(table: list[Run], folder: Path, cluster: Cluster) -> None:
    first, second = pretrainings(table)
    tasks = start(table, folder)
    assert (cluster.queue, cluster.runs_in_queue()) == (["1_0", "1_1"], identities(first, second))
    assert mine(folder, 0)[:2] == [first.identity, second.identity]
    assert set(mine(folder, 0)) == identities(first, second, *tunings(table, first), *tunings(table, second))
    first.update(state="finished")
    for _ in range(2):
        tasks.poll()
        assert cluster.queue == ["1_0", "1_1", "2_0", "2_1"]
    assert mine(folder, 1)[:2] == [run.identity for run in tunings(table, first)]


def test_no_more_tasks_than_allowed(folder: Path, cluster: Cluster) -> None:
    tasks = start([of_seed(seed) for seed in range(5)], folder, array=3)
    tasks.poll()
    assert cluster.queue == ["1_0", "1_1", "1_2"]
    (cluster.folder / "queue").write_text("1_1\n", encoding="utf-8")
    tasks.poll()
    assert cluster.queue == ["1_1", "2_0", "2_1"]


def test_a_run_of_several_processes_has_a_task_for_itself(folder: Path, cluster: Cluster) -> None:
    one, two, three = of_seed(0), of_seed(1, nodes=2, devices=4), of_seed(2, nodes=2, devices=4)
    start([two, one, three], folder, partition="long", account="lab", time=90, threads=3, gpus=1)
    assert cluster.queue == ["1_0", "2_0", "2_1"]
    assert [mine(folder, 0), mine(folder, 1)] == [[one.identity], [two.identity, three.identity]]
    script = (folder / "job-1.sh").read_text(encoding="utf-8").splitlines()
    expected = ["nodes=2", "ntasks-per-node=4", "gpus-per-node=4", "cpus-per-task=3", "time=90", "partition=long", "account=lab"]
    assert {f"#SBATCH --{option}" for option in [*expected, "signal=USR2@120", "requeue"]} < set(script)
    assert [line for line in script if line.startswith("export OMP_NUM_THREADS=")]
    assert script[-1].startswith("exec srun ")


@pytest.mark.parametrize("world", [1, 2])
def test_a_task_begins_with_its_own_run(world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Run] = []

    def execute(run: Run, **_: Any) -> None:
        done.append(run)
        run.update(state="finished")

    monkeypatch.setattr(worker, "execute", execute)
    runs = [of_seed(seed) for seed in range(3)]
    Job(runs).write(tmp_path / "job.json")
    for name, value in {"ARRAY_TASK_ID": 1, "STEP_NUM_TASKS": world, "PROCID": 1}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    with interruptible():
        worker.slurm_task(Job.read(tmp_path / "job.json"))
    assert [run.name for run in done] == (["seed1", "seed0", "seed2"] if world == 1 else ["seed1"])


def test_a_task_goes_back_into_the_queue_once(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "execute", lambda run, **_: signal.raise_signal(signal.SIGUSR2))
    monkeypatch.setattr(worker, "PATIENCE", 0.0)
    Job([of_seed(0)]).write(tmp_path / "job.json")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for number in "10":
        monkeypatch.setenv("SLURM_PROCID", number)
        with interruptible():
            worker.slurm_task(Job.read(tmp_path / "job.json"))
    assert (cluster.folder / "requeued").read_text(encoding="utf-8") == "requeue 77\n"


def test_other_options_of_sbatch() -> None:
    overrides = ["engine=slurm", "engine.more={qos: long, exclusive: true}", "engine.setup=['module load cuda']"]
    script = instantiate(compose("reproduce", overrides).engine, "engine").script(1, 1, Path("job.json"), 1).splitlines()
    assert {"#SBATCH --qos=long", "#SBATCH --exclusive", "module load cuda"} < set(script)
    plain = instantiate(compose("reproduce", ["engine=slurm"]).engine, "engine").script(1, 1, Path("job.json"), 1)
    assert not [name for name in ("partition", "account", "mem", "gpus-per-node", "None") if name in plain]


def test_an_option_of_sbatch_may_be_zero() -> None:
    engine = instantiate(compose("reproduce", ["engine=slurm", "engine.memory=0", "engine.more={nice: 0}"]).engine, "engine")
    assert {"#SBATCH --mem=0", "#SBATCH --nice=0"} < set(engine.script(1, 1, Path("job.json"), 1).splitlines())


@pytest.mark.parametrize(("key", "value"), [
    ("time", "x"), ("time", None), ("time", 1.5), ("array", 0), ("signal", -1), ("signal", 86400), ("gpus", -1), ("gpus", True),
    ("threads", "two"), ("threads", 0), ("setup", "module load cuda"), ("more", "long"),
])  # fmt: skip
def test_a_wrong_argument_of_slurm_is_named(key: str, value: Any) -> None:
    with pytest.raises(RelposError, match=f"^engine.{key}={shown(value)}: .* expected") as error:
        instantiate(compose("reproduce", ["engine=slurm", f"engine.{key}={shown(value)}"]).engine, "engine")
    assert len(str(error.value).splitlines()) == 1


def test_what_is_in_the_queue_is_not_submitted_again(run: Run, folder: Path, cluster: Cluster) -> None:
    start([run], folder).poll()
    start([run], folder.with_name("another launch")).poll()
    assert cluster.queue == ["1_0"]


def test_two_launches_of_one_table_keep_each_others_tasks_in_the_book(table: list[Run], folder: Path, cluster: Cluster) -> None:
    first, second = pretrainings(table)
    ours = start([first], folder)
    start([first, second], folder.with_name("another launch"))
    (cluster.folder / "queue").write_text("2_0\n", encoding="utf-8")  # the first task is lost
    ours.poll()
    assert cluster.queue == ["2_0", "3_0"]
    start([first, second], folder.with_name("a third"))
    assert cluster.queue == ["2_0", "3_0"]


def test_tasks_that_end_before_they_do_anything_end_the_launch(run: Run, folder: Path, cluster: Cluster) -> None:
    tasks = start([run], folder)
    for _ in range(FRUITLESS - 1):
        lose(tasks, cluster)
    assert cluster.submitted == FRUITLESS
    with pytest.raises(RelposError, match="jobs end before they start a run: see .*slurm"):
        lose(tasks, cluster)


def test_tasks_that_are_lost_at_work_are_submitted_again(run: Run, folder: Path, cluster: Cluster) -> None:
    """Whether the run's processes die too often is for `execute` to say."""
    tasks = start([run], folder)
    for _ in range(FRUITLESS + 2):
        run.begin()
        lose(tasks, cluster)
    assert cluster.submitted == 1 + FRUITLESS + 2
    run.fail("its process died")
    lose(tasks, cluster)
    assert cluster.queue == []


def test_what_others_hold_waits_until_they_are_done(table: list[Run], folder: Path, cluster: Cluster) -> None:
    """A task that finds its run taken ends at once, and that is no loss."""
    theirs, ours = pretrainings(table)
    tasks = start(table, folder)
    for _ in range(FRUITLESS + 2):
        theirs.update(state="running")
        with locked(theirs.path):
            (cluster.folder / "queue").write_text("1_1\n", encoding="utf-8")
            tasks.poll()
            assert cluster.runs_in_queue() == identities(ours)
        theirs.update(state="interrupted")  # they leave it undone
        tasks.poll()
        assert cluster.runs_in_queue() == identities(ours, theirs)


def test_a_queue_without_an_answer_is_asked_again(
    run: Run, folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(slurm, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    tasks = start([run], folder)
    for _ in range(2):
        capsys.readouterr()
        cluster.fall_silent("slurm_load_jobs error: Socket timed out")
        for _ in range(9):
            clock[0] += SILENCE / 9
            tasks.poll()
        (line,) = capsys.readouterr().err.splitlines()
        assert "Socket timed out" in line
        cluster.fall_silent(None)
        tasks.poll()  # an answer; then the patience begins anew
    cluster.fall_silent("slurm_load_jobs error: Socket timed out")
    tasks.poll()
    clock[0] += SILENCE + 1
    with pytest.raises(RelposError, match="Socket timed out"):
        tasks.poll()


def test_what_sbatch_refuses_is_submitted_later(run: Run, folder: Path, cluster: Cluster) -> None:
    tasks = start([run], folder)
    cluster.refuse("Socket timed out")
    lose(tasks, cluster)
    tasks.poll()
    assert cluster.queue == []
    cluster.refuse(None)
    tasks.poll()
    assert cluster.runs_in_queue() == identities(run)


def test_squeue_says_why(cluster: Cluster) -> None:
    cluster.fall_silent("\n")
    with pytest.raises(Unanswered, match="squeue: Command .* exit status 1"):
        slurm.in_queue()


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_tasks_are_cancelled_at_the_end(error: BaseException | None, run: Run, folder: Path, cluster: Cluster) -> None:
    tasks = start([run], folder)
    end(tasks, error)
    assert (cluster.cancelled, cluster.queue, tasks.book.read_text(encoding="utf-8")) == (["1_0"], [], "{}\n")


def test_tasks_are_cancelled_where_squeue_does_not_answer(
    run: Run, folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "PATIENCE", 0.0)
    tasks = start([run], folder)
    cluster.fall_silent("Socket timed out")
    end(tasks, KeyboardInterrupt())
    assert cluster.cancelled == ["1_0"]


def test_tasks_outlive_a_launcher_with_an_error(
    run: Run, folder: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    end(start([run], folder), RelposError("the disk is full"))
    assert (cluster.cancelled, cluster.queue) == ([], ["1_0"])
    assert "the same command goes on with them" in capsys.readouterr().err


def end(tasks: SlurmTasks, error: BaseException | None) -> None:
    """As the launcher does, on its way out because of the error or without one."""
    with suppress(RelposError, KeyboardInterrupt):
        try:
            if error:
                raise error
        finally:
            tasks.shutdown()
