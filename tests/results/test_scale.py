"""Runs are sorted by what their records say; covers values and scale."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from claims.made_up import ONE_PRETRAINING, by_seeds
from pretend import measured
from relpos.claims.contrasts import Contrasts
from relpos.results import values
from relpos.results.gain import Contrast
from relpos.results.scale import Scales, scales
from relpos.results.values import GLUE
from relpos.runs.run import read_record
from relpos.tables.experiment import experiments, load, pilot_seeds
from relpos.tables.plan import PlannedRow, plan_table
from tables.small_data import finish, finish_tuning, plan_of

ROWS = {"none": ["position=none"], "fixed": ["position=fixed"], "wide": ["position=fixed", "k=9"]}
SCORES = {"none": 20.0, "fixed": 30.0}
AHEAD = Contrasts([Contrast("fixed", "none")], above=0)


def read(rows: dict[str, list[str]], pilot_seeds: Collection[int] = ()) -> Scales:
    return scales(values.read(), rows, pilot_seeds)


def finish_rows(*rows: PlannedRow) -> None:
    for row in rows:
        for run in row.pretrainings:
            finish(run, {"heldout_loss": 3.5 if row.name == "none" else 3.0})
        for tuning in row.tunings:
            score = SCORES[row.name] + tuning.seed
            finish_tuning(
                tuning.run, dict.fromkeys(tuning.run.meaning["task"]["columns"], score), 10_000
            )


def train(folder: Path, *overrides: str) -> None:
    """A finished pre-training of the row `fixed` with these overrides."""
    (row,) = plan_table(load(str(folder / "small.yaml")), ["fixed"], overrides)
    finish(row.pretrainings[0], {"heldout_loss": 3.0})


@pytest.fixture
def rows(tmp_path: Path) -> list[PlannedRow]:
    changes: dict[str, Any] = {
        "rows": {"none": ["position=none"], "fixed": ["position=fixed"]},
        "seeds": [0, 1, 2],
    }
    return plan_of(tmp_path, **changes)


def test_runs_are_sorted_into_rows_by_their_configuration(rows):
    finish_rows(*rows)
    (scale,) = read(ROWS)
    assert {row: list(folders) for row, folders in scale.folders.items()} == {
        "none": [0],
        "fixed": [0],
    }
    assert by_seeds(scale.values["fixed"]["cola"]) == {(0, 0): 30.0, (0, 1): 31.0, (0, 2): 32.0}
    assert scale.shared(GLUE, "none", "fixed") == ["cola", "rte"]
    assert scale.label.startswith("2×16, 3 steps of 8, files (")
    (finding,) = AHEAD.verdicts(read(ROWS))
    assert finding.verdict == "undecided"
    assert finding.figures.startswith(
        "fixed − none +10.0 (these two models: [+10.0, +10.0] over 3 fine-tunings"
    )
    assert ONE_PRETRAINING in finding.figures
    assert by_seeds(scale.values["fixed"]["loss"]) == {(0, 0): -3.0}


def test_runs_that_are_unfinished_or_of_older_code_are_left_out(rows):
    none, fixed = rows
    finish_rows(*rows)
    none.pretrainings[0].update(state="interrupted")
    fixed.tunings[0].run.update(identity="0123456789ab")
    scales = read(ROWS)
    assert [list(scale.folders) for scale in scales] == [["fixed"]]
    assert (0, 0) not in by_seeds(next(iter(scales)).values["fixed"]["cola"])
    fixed.pretrainings[0].update(identity="0123456789ab")
    scales = read(ROWS)
    assert (list(scales), scales.older) == ([], 1)


def test_runs_of_a_seed_that_chose_rates_are_left_out_at_every_scale(rows, tmp_path):
    files = [
        replace(load("demo"), file=Path(f"{name}.yaml"), **of_file)
        for name, of_file in (("sweep", {"pretrain_seeds": [8]}), ("best", {"tuned": "sweep"}))
    ]
    assert pilot_seeds(files) == {8}
    for overrides in ([], ["pretrain.seed=8"], ["pretrain.seed=8", "pretrain.steps=9"]):
        train(tmp_path, *overrides)
    scales = read(ROWS, pilot_seeds=pilot_seeds(files))
    assert [list(scale.folders["fixed"]) for scale in scales] == [[0]]
    assert scales.pilots == 2


def test_no_table_about_claims_trains_with_a_seed_that_chose_rates():
    files = experiments()
    assert (seeds := pilot_seeds(files))
    assert not [
        experiment.name
        for experiment in files
        if experiment.claims and seeds.intersection(experiment.pretrain_seeds or ())
    ]


def test_another_number_of_steps_is_another_scale(rows, tmp_path):
    longer = plan_table(load(str(tmp_path / "small.yaml")), ["fixed"], ["pretrain.steps=9"])
    more = plan_table(load(str(tmp_path / "small.yaml")), ["fixed"], ["data.pairs=50"])
    finish_rows(*rows, *longer, *more)
    scales = read(ROWS)
    assert sorted(scale.meaning["steps"] for scale in scales) == [3, 3, 9]


def test_a_network_that_was_trained_further_is_in_no_row_and_no_run_of_older_code(rows):
    none, fixed = (row.pretrainings[0] for row in rows)
    for run in (none, fixed):
        inputs = {name: str(needed.path) for name, needed in run.inputs.items()}
        finish(
            run,
            {"heldout_loss": 3.0},
            inputs=inputs | ({"start": f"{none.path}/model"} if run is fixed else {}),
        )
    scales = read(ROWS)
    assert [list(scale.folders) for scale in scales] == [["none"]]
    assert scales.older == 0


def test_a_column_has_scores_of_one_fine_tuning_protocol(rows, tmp_path):
    finish_rows(*rows)
    other = plan_table(load(str(tmp_path / "small.yaml")), ["fixed"], ["finetune.steps=99"])[0]
    finish_tuning(other.tunings[0].run, {"cola": 99.0}, 20)
    (scale,) = read(ROWS)
    assert by_seeds(scale.values["fixed"]["cola"])[0, 0] == 30.0


def test_a_run_with_a_damaged_record_is_in_no_scale(rows, capsys):
    finish_rows(*rows)
    none, fixed = rows
    (none.pretrainings[0].path / "record.json").write_text('{"state": "fini', encoding="utf-8")
    fixed.tunings[0].run.update(metrics=None)
    fixed.tunings[1].run.update(meaning={"seed": 1})
    (scale,) = read(ROWS)
    assert list(scale.folders) == ["fixed"]
    assert (0, 0) not in by_seeds(scale.values["fixed"]["cola"])
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[2].split(" /")[0] for line in lines] == [" damaged record"] * 3
    assert str(none.pretrainings[0].path) in lines[0]
    assert {line.rpartition("json: ")[2] for line in lines[1:]} == {
        "it lacks something ('columns'): delete the folder to start anew",
        "it lacks something ('task'): delete the folder to start anew",
    }


def test_shuffle_gaps_that_were_measured_of_the_runs_are_read(rows, capsys):
    finish_rows(*rows)
    network = rows[1].pretrainings[0].path
    by_example = {"all": [1.0], "predicted": [1]}
    for share, gap in ((100, 0.75), (50, 0.25)):
        results = {
            "shuffle_gap": {"2": 0.1, "all": gap},
            "shuffle_gap_intervals": {"all": [0.0, 1.0]},
            "by_example": by_example,
        }
        measured(network, "shuffle", results, examples=100, share=share)
    damaged = measured(network, "shuffle", {}, examples=7)
    (damaged / "results.json").write_text("{", encoding="utf-8")
    (scale,) = read(ROWS)
    # at the end, not at the snapshot
    assert by_seeds(scale.values["fixed"]["order"]) == {(0, 0): 0.75}
    assert "order" not in scale.values["none"]
    assert "damaged results" in capsys.readouterr().err


def test_rows_of_another_position_lr_are_of_the_same_scale_and_the_tuned_one_counts(rows, tmp_path):
    finish_rows(rows[0])
    for rate, seeds in ((3, (8,)), (10, (8, 0, 1))):  # tried on one seed, and chosen
        for seed in seeds:
            train(tmp_path, f"recipe.position_lr={rate}", f"pretrain.seed={seed}")
    (scale,) = read(ROWS)
    assert (sorted(scale.folders["none"]), sorted(scale.folders["fixed"])) == ([0], [0, 1, 8])
    assert scale.travels == {
        "none": pytest.approx(short := scale.travels["none"]),
        "fixed": pytest.approx(10 * (short or 0.0)),
    }


def test_of_equally_many_seeds_those_with_a_rate_of_the_convolution_s_own_count(rows, tmp_path):
    finish_rows(rows[0])
    for seed in (0, 1):
        both = [("recipe.position_lr=30", f"recipe.conv_lr={rate}") for rate in (10, 3, 9)]
        for rates in ((), *both, ("recipe.position_lr=3",)):
            train(tmp_path, *rates, "conv=depthwise", f"pretrain.seed={seed}")
    (scale,) = read(ROWS | {"fixed_depthwise": ["position=fixed", "conv=depthwise"]})
    assert scale.travels["fixed_depthwise"] == pytest.approx(3 * (scale.travels["none"] or 0.0))
    recipes = [
        read_record(folder)["meaning"]["recipe"]
        for folder in scale.folders["fixed_depthwise"].values()
    ]
    assert [(recipe["position_lr"], recipe["conv_lr"]) for recipe in recipes] == [(30, 3), (30, 3)]


def test_a_scheme_travels_with_the_rates_of_its_own_parameters(rows, tmp_path):
    schemes: dict[str, list[str]] = {"triangle": ["position=dual_triangle"]}
    schemes |= {
        conv: ["position=none", f"conv={conv}", "recipe.conv_lr=3"]
        for conv in ("depthwise", "convbert")
    }
    file = load(str(tmp_path / "small.yaml"))
    plan = [
        *rows,
        *(
            replace(plan_table(file, ["none"], overrides)[0], name=name)
            for name, overrides in schemes.items()
        ),
    ]
    for row in plan:
        metrics = {
            "heldout_loss": 3.0,
            "perplexity": 20.0,
            "parameters": 9,
            "position_parameters": 5 * (row.name == "fixed"),
        }
        finish(row.pretrainings[0], metrics)
    (scale,) = read(ROWS | schemes)
    short = scale.travels["fixed"]
    assert short
    longer = pytest.approx(3 * short)
    assert scale.travels == {
        "none": None,
        "fixed": short,
        "triangle": None,
        "depthwise": longer,
        "convbert": longer,
    }


@pytest.mark.parametrize(
    ("key", "values"),
    [("recipe.lr", ["0.001", "0.003"]), ("pretrain.packing", ["document", "pair"])],
)
def test_scales_that_differ_in_one_dial_alone_have_different_labels(key, values, rows, tmp_path):
    for value in values:
        train(tmp_path, f"{key}={value}")
    labels = [scale.label.rpartition(" ")[2] for scale in read(ROWS)]
    assert sorted(labels) == [f"{key.rpartition('.')[2]}={value}" for value in values]
