"""How long a run takes: as finished runs like it say, else by a rate that was measured here, else it is unknown."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import relpos
from relpos.files import write_json
from relpos.runs import estimate, measurement, plan
from relpos.runs.cost import Rate, flops, flops_done, flops_per_token
from relpos.runs.estimate import Estimate, keep
from relpos.runs.run import Run, make_runs_root, runs_root

HERE = {"processor": "one", "cores": 2}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "hardware", lambda: HERE)


def pretraining(*overrides: str) -> Run:
    return plan(relpos.compose("pretrain", ["size=tiny", *overrides]))


def finished(name: str, cost: float, rate: float, stage: str = "pretrain", **changes: Any) -> None:
    record = {
        "state": "finished",
        "starts": [{"step": 0}],
        "hardware": HERE,
        "meaning": {"precision": "fp32"},
        "flops": rate * 10.0,
        "flops_per_token": cost,
        "fit_seconds": 10.0,
    }
    write_json(runs_root() / stage / name / "record.json", record | changes)


def test_a_rate_is_the_median_of_finished_runs_alike_per_thread() -> None:
    run = pretraining()
    own = flops_per_token(run)
    assert Estimate().rate(run) == (None, "unknown")
    for name, rate in (("a", 3e9), ("b", 4e9), ("c", 9e9)):
        finished(name, own * 1.5, rate)
    finished("larger", own * 5, 1e12)
    finished("bf16", own, 1e12, meaning={"precision": "bf16"})
    finished("elsewhere", own, 1e12, hardware=HERE | {"gpus": ["a GPU"]})
    finished("continued", own, 1e12, starts=[{"step": 0}, {"step": 8}])
    finished("two_processes_of_two_threads", own, 2e10, starts=[{"step": 0, "processes": 2, "threads": 2}])
    finished("failed", own, 1e12, state="failed")
    known = Estimate()
    assert known.rate(run)[0] == pytest.approx((4e9 + 5e9) / 2)  # of 3, 4, 5 (2e10 by four threads) and 9
    assert known.seconds(run) == pytest.approx(run.config["steps"] * 64 * 128 * own / 4.5e9)
    assert known.seconds(pretraining("size=base")) is None
    assert known.seconds(run.inputs["store"]) == 0.0


def test_a_rate_holds_for_one_optimiser() -> None:
    adamw, muon = pretraining(), pretraining("recipe.optimizer=muon")
    finished("muon", flops_per_token(muon), 1e9, meaning=muon.meaning)
    assert Estimate().rate(adamw) == (None, "unknown")
    assert Estimate().rate(muon)[0] == pytest.approx(1e9)
    write_json(runs_root() / estimate.RATES, [{"hardware": HERE, "precision": "fp32", "flops_per_token": 1.0, "rate": 1.0}])
    for name, value in (("muon", 2e9), ("adamw", 3e9)):
        keep(Rate("fp32", 1.0, value, optimizer=name))
    assert [rate.value for rate in Estimate().measured] == [2e9, 3e9]  # the one of earlier code was of AdamW, and is replaced


def test_a_run_beside_others_counts_by_the_time_that_it_worked() -> None:
    finished("beside", flops_per_token(pretraining()), 1e9, starts=[{"threads": 1}], fit_cpu_seconds=2.5)
    assert Estimate().rate(pretraining())[0] == pytest.approx(4e9)


def test_finished_fine_tunings_of_the_same_task_count_before_those_of_others() -> None:
    run = plan(relpos.compose("finetune", ["size=tiny", "task=rte"]))
    for task, rate in (("cola", 9e9), ("sst2", 8e9), ("rte", 2e9)):
        finished(task, flops_per_token(run), rate, "finetune", meaning={"precision": "fp32", "task": {"name": task}})
    assert Estimate().rate(run)[0] == pytest.approx(2e9)


def test_a_step_is_measured_once_for_runs_alike_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs_root()
    runs = [pretraining(f"seed={seed}", "data=files") for seed in (0, 1)] + [pretraining("data=files", "size=base")]
    now = Estimate(measures=True)
    assert [now.rate(run)[1] for run in runs[:2]] == ["a rate measured here"] * 2
    monkeypatch.setattr(measurement, "measured_rate", lambda run: pytest.fail("measured again"))
    assert Estimate(measures=True).rate(runs[1]) == Estimate().rate(runs[0]) == now.rate(runs[0])
    assert Estimate().rate(runs[2]) == (None, "unknown")


def test_of_short_text_only_its_tokens_count_and_of_the_generated_language_only_the_pieces_that_it_has() -> None:
    run = pretraining("data=toy")
    keep(Rate("fp32", flops_done(run)[1], 1e9))
    done, per_token, per_step = flops_done(run)
    assert 10 < per_step / run.config["batch"] < 30
    assert done < flops(run) / 4
    assert per_token < flops_per_token(run) / 2
    assert Estimate().seconds(run) == pytest.approx(done / 1e9)


@pytest.mark.parametrize("content", ['[{"rate": 3}]', "{", "7", '[{"hardware": 1}, 2]'])
def test_a_damaged_file_of_rates_is_measured_anew(content: str) -> None:
    runs_root().mkdir(parents=True, exist_ok=True)
    (runs_root() / "rates.json").write_text(content)
    assert Estimate().measured == []
    keep(Rate("fp32", 1.0, 3.0, 2.0))
    assert len(Estimate().measured) == 1


@pytest.mark.full
def test_busy_processes_change_no_estimate_by_more_than_half() -> None:
    """With twice as many of them as there are cores, the clock would say three times as much and more."""
    run = pretraining("data=files")
    before = measurement.measured_rate(run).value
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        beside = measurement.measured_rate(run).value
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert before / 2 < beside < before * 2


def test_a_folder_that_cannot_be_written_to_is_estimated_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(estimate, "RATES", "file/rates.json")
    monkeypatch.setattr(estimate, "runs_root", lambda: tmp_path)
    assert Estimate(measures=True).seconds(pretraining("data=files"))
