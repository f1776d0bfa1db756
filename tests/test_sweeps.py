"""Sweeps that something else leads: commands that train return the figure that `metric` names."""

import json
import math
import sys
from collections.abc import Callable
from functools import wraps
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

import relpos
from relpos.cli import main
from relpos.commands.reproduce import reproduce
from relpos.config.compose import resolved
from relpos.config.sweeps import KeepsKeys
from relpos.errors import RelposError
from relpos.process import without_keys
from relpos.runs.plan import plan
from relpos.runs.shelf import figure

SHORT = ["position=none", "batch=8", "evaluations=1", "steps=2"]


@pytest.fixture
def returned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a sweeper of Hydra's gets to see of each run."""
    seen: list[Any] = []
    # Hydra's own copy
    basic = Plugins.instance().class_name_to_class[
        "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
    ]
    sweep = basic.sweep

    def watching(self: Any, arguments: list[str]) -> Any:
        result = sweep(self, arguments)
        seen.extend(job.return_value for batch in result for job in batch)
        return result

    monkeypatch.setattr(basic, "sweep", watching)
    return seen


def losses(runs: Path, key: Callable[[dict[str, Any]], Any]) -> dict[Any, float]:
    """A key of the meaning of each finished pre-training → its loss."""
    records = [json.loads(path.read_text()) for path in (runs / "pretrain").glob("*/record.json")]
    return {
        key(record["meaning"]): record["metrics"]["heldout_loss"]
        for record in records
        if record["state"] == "finished"
    }


SWEEP = ["pretrain", "-m", *SHORT, "seed=1,2", "metric=heldout_loss"]


def test_a_sweeper_gets_the_figure_that_metric_names(toy_runs, returned):
    assert main(SWEEP) == 0
    kept = losses(toy_runs, itemgetter("seed"))
    assert returned == [kept[1], kept[2]]


def test_a_run_that_fails_is_the_worst_and_the_sweep_goes_on(
    toy_runs, returned, capsys, monkeypatch
):
    from relpos.runs.execute import execute

    def failing(run: Any, **how: Any) -> Any:
        if run.meaning.get("seed") == 1:
            raise RelposError("training diverged")
        return execute(run, **how)

    monkeypatch.setattr("relpos.runs.execute.execute", failing)
    assert main(SWEEP) == 1
    assert capsys.readouterr().err.endswith("relpos: training diverged\n")
    assert returned == [math.inf, losses(toy_runs, itemgetter("seed"))[2]]


def test_the_figure_is_any_final_number_or_column_and_its_negative_where_more_is_better(tmp_path):
    metrics = {"steps": 3, "columns": {"rte": 52.5}, "parts": {"x": 1.0}}
    (tmp_path / "record.json").write_text(json.dumps({"metrics": metrics}))
    figures_of_run = [figure(tmp_path, name) for name in ("rte", "-rte", "steps")]
    assert figures_of_run == [52.5, -52.5, 3]
    with pytest.raises(
        RelposError, match=r"metric=rtf: the run has no figure 'rtf'\. Did you mean 'rte'\?"
    ):
        figure(tmp_path, "rtf")


@pytest.mark.parametrize(
    ("command", "more"),
    [("pretrain", []), ("finetune", ["task=rte", "intermediate=none", "pretrain.steps=2"])],
)
def test_a_figure_that_the_run_will_not_have_is_refused_before_the_training(
    toy_runs, command, more
):
    overrides = [*SHORT, *more]
    run = relpos.run(relpos.compose(command, overrides))
    for name in run.record.figures:
        assert plan(relpos.compose(command, [*overrides, f"metric=-{name}"])).path == run.path
    with pytest.raises(RelposError, match="^metric=step: the run has no figure 'step'"):
        plan(relpos.compose(command, [*overrides, "metric=step"]))


@pytest.mark.full
def test_optuna_finds_the_best_of_four_learning_rates(toy_runs):
    pytest.importorskip(
        "hydra_plugins.hydra_optuna_sweeper", reason="pip install hydra-optuna-sweeper"
    )
    sweep = ["hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.n_trials=4"]
    rates = [1e-6, 1e-4, 3e-3, 1.0]
    choice = f"recipe.lr=choice({','.join(map(str, rates))})"
    assert (
        main(["pretrain", "-m", *sweep, *SHORT[:-1], "steps=30", "metric=heldout_loss", choice])
        == 0
    )
    (file,) = (toy_runs / "sweeps").glob("*/optimization_results.yaml")
    best = yaml.safe_load(file.read_text())
    kept = losses(toy_runs, lambda meaning: meaning["recipe"]["lr"])
    assert sorted(kept) == rates
    assert best["best_params"]["recipe.lr"] == min(kept, key=kept.__getitem__) == 3e-3
    assert best["best_value"] == kept[3e-3]


def test_keys_that_a_sweep_goes_through_reach_the_logger_and_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    loggers: list[Any] = []

    def run(config: Any) -> Any:
        logger = resolved(config)["logger"]
        loggers.append((logger["prefix"], logger["version"]))
        return SimpleNamespace(path=tmp_path, metrics={})

    monkeypatch.setattr("relpos.commands.pretrain.run", run)
    keys = ["+logger.prefix='SECRET, 1',SECRET2", "+logger.version=choice(1,SECRET3)"]
    group = "++logger={prefix: SECRET2, version: SECRET3}"
    custom = ["logger=custom", "logger._target_=pytorch_lightning.loggers.CSVLogger"]
    every = [(prefix, version) for prefix in ("SECRET, 1", "SECRET2") for version in (1, "SECRET3")]
    for words, kept in ((keys, every), ([group], every[-1:])):
        loggers.clear()
        assert main(["pretrain", "-m", *custom, *words]) == 0
        assert sorted(loggers, key=str) == sorted(kept, key=str)
    swept = [path.read_text() for path in tmp_path.glob("sweeps/*/multirun.yaml")]
    assert len(swept) == 2
    assert "SECRET" not in "".join([*swept, *sys.argv, *without_keys([group])])


def written_down(sweeper: dict[str, Any], **overrides: list[str]) -> Any:
    """What Hydra writes down of a sweep."""
    hydra = {"sweeper": sweeper, "overrides": overrides, "job": {}}
    config = OmegaConf.create({"hydra": hydra})
    KeepsKeys().on_multirun_start(config)
    assert "SECRET" not in OmegaConf.to_yaml(config)
    return config.hydra


def test_keys_among_the_params_of_a_sweeper_become_overrides_with_references():
    params = {"logger.prefix": "'SECRET, 1',SECRET2", "seed": "1,2"}
    typed = "hydra.sweeper.params={logger.x: SECRET}"
    hydra = written_down({"params": params}, task=["steps=1"], hydra=[typed])
    assert hydra.sweeper.params == {"seed": "1,2"}
    prefix, steps = hydra.overrides.task  # with its references resolved
    assert (prefix, steps) == ("logger.prefix='SECRET, 1','SECRET2'", "steps=1")
    assert "SECRET" not in without_keys([typed])[0]


def test_a_key_in_the_rows_overrides_of_a_swept_table_stands_in_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    overrides: list[Any] = []

    @wraps(reproduce)
    def seen(**keys: Any) -> str:
        overrides.append(keys["overrides"])
        return "done"

    monkeypatch.setattr("relpos.commands.reproduce.reproduce", seen)
    words = ["+logger.api_key=SECRET", "steps=2"]
    assert main(["reproduce", "-m", "table=demo,demo_glue", *words]) == 0
    assert overrides == [words, words]
    (swept,) = tmp_path.glob("sweeps/*/multirun.yaml")
    assert "SECRET" not in swept.read_text()


def test_the_password_of_a_study_is_a_reference_where_hydra_writes_a_sweep_down():
    storage = "mysql://me:SECRET@host/study"
    typed = f"hydra.sweeper.storage='{storage}'"
    hydra = written_down({"storage": storage}, task=["seed=1,2"], hydra=[typed])
    assert hydra.sweeper.storage == storage
    assert hydra.overrides.task == ["seed=1,2"]
