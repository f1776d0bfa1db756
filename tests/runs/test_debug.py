"""`debug=true` rehearses a run; profiler and anomaly detection of Lightning can be reached."""

from pathlib import Path

import pytest

import relpos
from relpos.commands.finetune import before
from relpos.runs import plan

TINY = ["position=none", "batch=4", "length=16", "size.layers=1", "speed.threads=1"]


def test_a_rehearsal_takes_ten_steps_apart_from_real_runs_and_anew_each_time(toy_runs: Path) -> None:
    cfg = relpos.compose("pretrain", [*TINY, "debug=true", "speed.devices=2"])
    for _ in range(2):
        run = relpos.run(cfg)
        assert (run.metrics["steps"], len(run.record["starts"])) == (10, 1)
    assert run.path.parent == toy_runs / "debug" / "pretrain"
    assert run.config["speed"]["detect_anomaly"]
    assert not (toy_runs / "pretrain").exists()


def test_a_rehearsed_fine_tuning_starts_from_rehearsals() -> None:
    run = plan(relpos.compose("finetune", ["task=rte", "debug=true"]))
    mnli = run.inputs["start"]
    pretraining = mnli.inputs["start"]
    assert [part.config["steps"] for part in (run, mnli, pretraining)] == [10, 10, 10]
    assert all("debug" in part.path.parts for part in (run, mnli, pretraining))
    assert "debug" not in pretraining.inputs["store"].path.parts


@pytest.mark.parametrize(("profiler", "report"), [("simple", "fit-simple.txt"), ("advanced", "fit-advanced.txt")])
def test_a_profiler_of_lightning_writes_into_the_folder(toy_runs: Path, profiler: str, report: str) -> None:
    run = relpos.run(relpos.compose("pretrain", [*TINY, "steps=2", f"speed.profiler={profiler}"]))
    assert (run.path / "profile" / report).stat().st_size > 0


def test_debug_and_profiler_are_no_part_of_the_identity() -> None:
    identity = plan(relpos.compose("pretrain", ["steps=10"])).identity
    for override in ("speed.profiler=simple", "speed.detect_anomaly=true", "debug=true"):
        assert plan(relpos.compose("pretrain", ["steps=10", override])).identity == identity


def test_what_comes_before_a_fine_tuning_is_said_and_how_to_leave_it_out(tmp_path: Path) -> None:
    said = before(plan(relpos.compose("finetune", ["task=rte", "steps=20"])))
    assert said == (
        "first 1,500 steps of pre-training and 250 steps of fine-tuning on mnli; intermediate=none leaves mnli out, "
        "intermediate.steps=N shortens it; network=FOLDER starts from a finished pre-training"
    )
    short = before(plan(relpos.compose("finetune", ["task=rte", "intermediate.steps=7"])))
    assert short is not None
    assert "7 steps of fine-tuning on mnli" in short
    alone = before(plan(relpos.compose("finetune", ["task=rte", "intermediate=none"])))
    assert alone == "first 1,500 steps of pre-training; network=FOLDER starts from a finished pre-training"


def test_the_intermediate_task_keeps_its_identity_unless_it_is_shortened() -> None:
    mnli = plan(relpos.compose("finetune", ["task=rte"])).inputs["start"]
    for overrides in (["intermediate=mnli"], ["intermediate.task=mnli"], ["intermediate.steps=250"]):
        assert plan(relpos.compose("finetune", ["task=rte", *overrides])).inputs["start"].identity == mnli.identity
    assert plan(relpos.compose("finetune", ["task=rte", "intermediate.steps=9"])).inputs["start"].identity != mnli.identity
