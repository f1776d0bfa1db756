"""Which runs share a cluster's job, and which jobs wait for which."""

from pathlib import Path
from typing import Any

import pytest

from relpos.errors import RelposError
from relpos.launch.bundles import bundles
from relpos.launch.local import Local
from relpos.launch.slurm import Slurm
from relpos.ranges import shown
from relpos.runs import compose
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from relpos.trust import instantiate
from tables.small_data import write_experiment


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))


def test_a_fine_tuning_waits_for_its_own_pre_training_only(tmp_path: Path) -> None:
    rows = runs_of(plan_table(load(str(write_experiment(tmp_path, tasks=["cola", "rte"], seeds=[0, 1, 2])))))
    dealt = bundles(rows, 4)
    assert sorted(run.identity for bundle in dealt for run in bundle.runs) == sorted(run.identity for run in rows)
    data, first, second, *tunings = dealt
    assert [run.stage for run in data.runs] == ["tokenizer", "store"]
    for pretraining in (first, second):
        assert [run.stage for run in pretraining.runs] == ["pretrain"]
        assert pretraining.needs == [data]
    assert [len(bundle.runs) for bundle in tunings] == [4, 2, 4, 2]
    assert [bundle.needs for bundle in tunings] == [[first], [first], [second], [second]]


def test_fine_tunings_that_need_each_other_stay_together(tmp_path: Path) -> None:
    stages = {"pretrain": ["steps=3"], "finetune": ["steps=3"]}
    file = write_experiment(tmp_path, rows={"none": ["position=none"]}, stages=stages, tasks=["rte", "mrpc"], seeds=[0, 1])
    tunings = [bundle for bundle in bundles(runs_of(plan_table(load(str(file)))), 2) if bundle.name.startswith("finetune")]
    for bundle, seed in zip(tunings, (0, 1), strict=True):
        assert bundle.runs[0].config["task"]["name"] == "mnli"
        assert {run.config["seed"] for run in bundle.runs} == {seed}
        assert len(bundle.runs) == 3


def test_a_pre_training_takes_the_processes_that_it_asks_for(tmp_path: Path) -> None:
    overrides = ["pretrain.speed.nodes=2", "pretrain.speed.devices=4"]
    rows = runs_of(plan_table(load(str(write_experiment(tmp_path))), overrides=overrides))
    sizes = {bundle.runs[0].stage: (bundle.nodes, bundle.tasks) for bundle in bundles(rows, 9)}
    assert sizes == {"tokenizer": (1, 1), "pretrain": (2, 4), "finetune": (1, 1)}
    bundle = next(bundle for bundle in bundles(rows, 9) if bundle.tasks == 4)
    options = Slurm(partition="long", account="lab", time=90, threads=3, gpus=1).options(bundle)
    expected = {"nodes": 2, "tasks_per_node": 4, "slurm_gpus_per_node": 4, "cpus_per_task": 3, "timeout_min": 90}
    assert expected.items() <= options.items()
    assert (options["slurm_partition"], options["slurm_account"]) == ("long", "lab")


def test_the_local_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = runs_of(plan_table(load(str(write_experiment(tmp_path)))))
    assert Local(workers=3, devices=[]).places(rows) == [None] * 3
    assert Local(devices=[0, 1], runs_per_device=2).places(rows) == ["0", "1", "0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert Local().places(rows) == ["3", "5"]
    two = runs_of(plan_table(load(str(write_experiment(tmp_path))), overrides=["pretrain.speed.devices=2"]))
    assert Local().places(two) == ["3,5"]
    assert Local(workers=9, devices=[]).places(rows[:2]) == [None] * 2  # no more than runs


def test_other_options_of_sbatch(tmp_path: Path) -> None:
    overrides = ["engine=slurm", "engine.more={qos: long}", "engine.setup=['module load cuda']"]
    engine = instantiate(compose("reproduce", overrides).engine, "engine")
    bundle = bundles(runs_of(plan_table(load(str(write_experiment(tmp_path))))), 9)[0]
    assert engine.options(bundle)["slurm_additional_parameters"] == {"qos": "long"}
    assert engine.options(bundle)["slurm_setup"] == ["module load cuda"]
    plain = instantiate(compose("reproduce", ["engine=slurm"]).engine, "engine").options(bundle)
    assert not {"slurm_additional_parameters", "slurm_setup"} & plain.keys()


@pytest.mark.parametrize(("key", "value"), [
    ("runs_per_job", 0), ("time", "x"), ("time", None), ("time", 1.5), ("array", 0), ("signal", -1), ("signal", 86400),
    ("gpus", -1), ("gpus", True), ("threads", "two"), ("threads", 0),
    ("setup", "module load cuda"), ("more", "long"), ("watch", "no"),
])  # fmt: skip
def test_a_wrong_argument_of_slurm_is_named(key: str, value: Any) -> None:
    with pytest.raises(RelposError, match=f"^engine.{key}={shown(value)}: .* expected") as error:
        instantiate(compose("reproduce", ["engine=slurm", f"engine.{key}={shown(value)}"]).engine, "engine")
    assert len(str(error.value).splitlines()) == 1
