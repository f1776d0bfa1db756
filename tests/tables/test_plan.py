"""From rows to runs: shared, identical to those of the single commands."""

import re
from pathlib import Path

import pytest

from relpos.cli import main
from relpos.commands.reproduce import refuse
from relpos.config.arguments import rewritten
from relpos.config.compose import compose, composed
from relpos.errors import RelposError
from relpos.files import write_json
from relpos.launch.jobs import Job
from relpos.runs.cost import RATE, hardware
from relpos.runs.plan import plan
from relpos.runs.run import runs_root
from relpos.stages.finetune import with_task
from relpos.tables.experiment import load
from relpos.tables.plan import PlannedRow, plan_table, reseeded, runs_of
from tables.small_data import plan_of, small, write_experiment

PART = "{_target_: relpos.model.position.%s}"
PRETRAIN = ["steps=7", "seed=3", "precision=bf16", "recipe.lr=0.01", "batch=32", "evaluations=2"]


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))


def test_a_fine_tuning_starts_from_its_rows_pre_training(tmp_path):
    stages = {"pretrain": PRETRAIN, "finetune": ["steps=5"]}
    for row in plan_of(tmp_path, stages=stages, tasks=["cola", "rte"]):
        starts = [tuning.run.inputs["start"] for tuning in row.tunings]
        assert starts[0] is row.pretrainings[0]  # cola
        assert starts[1].stage == "finetune"  # rte comes after mnli
        assert starts[1].inputs["start"] is row.pretrainings[0]


def test_intermediate_fine_tunings_come_before_all_others(tmp_path):
    stages = {"pretrain": PRETRAIN, "finetune": ["steps=5"]}
    runs = runs_of(plan_of(tmp_path, stages=stages, tasks=["cola", "rte"]))
    tasks = [run.meaning["task"]["name"] for run in runs if run.stage == "finetune"]
    assert tasks == ["mnli"] * (len(tasks) // 3) + ["cola"] * (len(tasks) // 3) + ["rte"] * (
        len(tasks) // 3
    )


def test_runs_are_those_of_the_single_commands(tmp_path):
    stages = {"pretrain": PRETRAIN, "finetune": ["steps=5", "intermediate=none"]}
    experiment = small(tmp_path, stages=stages, seeds=[0, 4])
    row = plan_table(experiment, ["fixed"])[0]
    shared = [*experiment.base, *experiment.rows["fixed"]]
    assert row.pretrainings[0].identity == plan(compose("pretrain", [*shared, *PRETRAIN])).identity
    inner = [
        f"pretrain.{override}" for override in PRETRAIN if not override.startswith("evaluations")
    ]
    overrides = [*shared, *inner, "steps=5", "intermediate=none"]
    assert_tuned_as(row, "rte", 4, overrides)


def assert_tuned_as(row: PlannedRow, task: str, seed: int, overrides: list[str]) -> None:
    """The row's fine-tuning is that of `relpos finetune` with these overrides."""
    alone = plan(compose("finetune", [*overrides, f"task={task}", f"seed={seed}"]))
    [run] = [tuning.run for tuning in row.tunings if (tuning.task, tuning.seed) == (task, seed)]
    assert (run.identity, run.name) == (alone.identity, alone.name)


def test_a_reseeded_run_equals_one_planned_with_that_seed():
    content = composed("finetune", ["task=cola"])
    first, anew = (plan(with_task(content, "rte", seed=seed)) for seed in (0, 5))
    assert reseeded(first, 5) == anew
    assert reseeded(first, 5).inputs["start"].identity == anew.inputs["start"].identity


def test_the_first_seed_of_every_row_comes_before_the_second_of_any(tmp_path):
    rows = plan_of(tmp_path, tasks=[], pretrain_seeds=[4, 2])
    seeds = [run.config.seed for run in runs_of(rows) if run.stage == "pretrain"]
    assert seeds == [4] * len(rows) + [2] * len(rows)


def test_overrides_for_one_stage_do_not_reach_the_other(tmp_path):
    experiment = small(tmp_path)
    before, after = (
        plan_table(experiment, ["none"], overrides)[0] for overrides in ([], ["finetune.steps=9"])
    )
    assert before.pretrainings[0].identity == after.pretrainings[0].identity
    assert {tuning.run.config.steps for tuning in after.tunings} == {9}
    longer = plan_table(experiment, ["none"], ["pretrain.steps=9"])[0]
    assert longer.pretrainings[0].config.steps == 9
    assert {tuning.run.config.steps for tuning in longer.tunings} == {3}


def test_several_pre_training_seeds_give_several_runs(tmp_path):
    row = plan_of(tmp_path, pretrain_seeds=[0, 1], seeds=[0, 1, 2])[0]
    assert [run.config.seed for run in row.pretrainings] == [0, 1]
    assert len({tuning.run.identity for tuning in row.tunings}) == 2 * 3 * 2


def test_a_wrong_override_names_the_row(tmp_path):
    rows = {"none": ["position=none"], "long": ["position=fixd"]}
    with pytest.raises(
        RelposError, match=r"table small, row 'long': unknown position 'fixd'. Did you mean 'fixed'"
    ):
        plan_of(tmp_path, rows=rows)


def test_inputs_come_before_their_readers_and_each_run_comes_once():
    runs = runs_of(plan_table(load("demo")))
    places = {run.identity: place for place, run in enumerate(runs)}
    assert len(places) == len(runs) == 3 + 5 * (1 + 2)
    assert all(
        places[other.identity] < places[run.identity]
        for run in runs
        for other in run.inputs.values()
    )


def test_a_job_read_from_its_file_has_the_same_runs(tmp_path):
    runs = runs_of(plan_table(load("demo"), ["none", "fixed"]))
    Job(runs, 2, {runs[0].identity: 1}).write(tmp_path / "job.json")
    read = Job.read(tmp_path / "job.json", is_worker=True)
    assert (read.retries, read.starts) == (2, {runs[0].identity: 1})
    assert [(run.identity, run.path) for run in read.runs] == [
        (run.identity, run.path) for run in runs
    ]
    assert read.runs == runs


def test_overrides_of_the_rows_need_no_brackets():
    overrides = ["table=demo", "rows=[none]", "data.root=/a b", "pretrain.steps=3"]
    assert rewritten("reproduce", overrides) == [
        "table=demo",
        "rows=[none]",
        "overrides=['data.root=/a b','pretrain.steps=3']",
    ]
    assert rewritten("reproduce", ["table=demo", "hydra.verbose=true"]) == [
        "table=demo",
        "hydra.verbose=true",
    ]
    assert rewritten("reproduce", ["+engine.more.qos=long", "steps=3"]) == [
        "+engine.more.qos=long",
        "overrides=['steps=3']",
    ]


def test_seeds_of_the_command_line_replace_those_of_the_file(capsys):
    arguments = [
        "reproduce",
        "table=demo",
        "rows=[fixed]",
        "pretrain_seeds=2",
        "seeds=[0,7]",
        "dry_run=true",
    ]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert re.search(r"^fixed +0/2 +0/8 *$", output, re.MULTILINE)  # two tasks
    assert re.search(
        r"^\d\.\de\+\d\d operations left: `relpos cost` measures", output, re.MULTILINE
    )
    write_json(runs_root() / RATE, {"hardware": hardware(), "operations_per_second": 1e9})
    assert main(arguments) == 0
    assert re.search(
        r"^\d\.\de\+\d\d operations left: [\d.,]+ device-hours$",
        capsys.readouterr().out,
        re.MULTILINE,
    )
    assert main([*arguments[:3], "pretrain_seeds=[1,1]"]) == 1
    assert "pretrain_seeds: a seed is given twice" in capsys.readouterr().err


def test_tasks_of_the_command_line_replace_those_of_the_file(tmp_path, monkeypatch, capsys):
    arguments = ["reproduce", "table=demo", "rows=[fixed]", "dry_run=true"]
    for tasks, counts in (("[cola]", "0/1 +0/1"), ("[]", "0/1")):
        assert main([*arguments, f"tasks={tasks}"]) == 0
        assert re.search(rf"^fixed +{counts} *$", capsys.readouterr().out, re.MULTILINE)
    assert main([*arguments, "tasks=[coal]"]) == 1
    assert "tasks: unknown task 'coal'. Did you mean 'cola'" in capsys.readouterr().err

    (tmp_path / "mine.yaml").write_text("columns: [text, label]\n", encoding="utf-8")
    # where the file lies, whatever the folder of the experiment file is
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "tasks=[mine.yaml]"]) == 1
    assert f"no train.tsv, train.csv or train.jsonl in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("retrys=2", "retries"),
        ("tabel=x", "table"),
        ("worker=2", "workers"),
        ("dryrun=true", "dry_run"),
    ],
)
def test_a_misspelt_key_of_the_table_is_not_taken_for_an_override_of_its_rows(override, meant):
    with pytest.raises(
        RelposError, match=f"unknown key '{override.partition('=')[0]}'. Did you mean '{meant}'"
    ):
        rewritten("reproduce", [override])


def test_rows_that_start_from_a_checkpoint_pre_train_nothing(tmp_path):
    model = tmp_path / "host"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"weights")
    rows = {"kept": ["change.tisa=0"], "removed": ["change.positions=remove"]}
    given = small(
        tmp_path,
        rows=rows,
        stages={},
        base=["steps=3"],
        network="???",
        seeds=2,
        baseline=None,
    )
    assert [row.runs for row in plan_table(given)] == [[]] * 2
    kept, removed = plan_table(given, overrides=[f"network={model}"])
    assert (kept.pretrainings, removed.pretrainings) == ([], [])
    overrides = ["steps=3", f"network={model}", "change.positions=remove"]
    assert_tuned_as(removed, "cola", 1, overrides)
    with pytest.raises(RelposError, match="no such folder or file"):
        plan_table(given, overrides=["network=./nowhere"])


@pytest.mark.parametrize("where", ["task", "experiment"])
def test_an_intermediate_task_lies_beside_the_file_that_names_it(where, tmp_path, monkeypatch):
    files = tmp_path / "my files"
    for name in ("first", "second"):
        (files / name).mkdir(parents=True)
        for split in ("train", "dev"):
            (files / name / f"{split}.tsv").write_text(
                f"text\tlabel\na {name} dog\tyes\na cat\tno\n"
            )
    (files / "first.yaml").write_text("columns: text\nfolder: first\n")
    of_task = "intermediate: first.yaml\n" if where == "task" else ""
    (files / "second.yaml").write_text(f"columns: text\nfolder: second\n{of_task}")
    stages = {"finetune": ["intermediate=first.yaml"]} if where == "experiment" else {}
    file = write_experiment(
        files,
        base=["data=toy"],
        tasks=["second.yaml"],
        stages=stages,
        rows={"none": ["position=none"]},
    )
    identities = []
    for folder in (tmp_path, files):  # the working directory makes no difference
        monkeypatch.chdir(folder)
        (row,) = plan_table(load(str(file)))
        start = row.tunings[0].run.inputs["start"]
        assert (start.stage, start.meaning["task"]["name"]) == ("finetune", "first")
        identities.append(row.tunings[0].run.identity)
    files.rename(tmp_path / "moved")
    (row,) = plan_table(load(str(tmp_path / "moved" / file.name)))
    assert {row.tunings[0].run.identity, *identities} == {identities[0]}


def test_a_network_that_cannot_be_built_is_refused_before_the_rows_before_it_are_made(tmp_path):
    rows = {
        "none": ["position=none"],
        "both": ["position=merge", f"position.parts=[{PART % 'Pope'},{PART % 'Rope'}]"],
    }
    file = write_experiment(
        tmp_path, base=["data=toy", "size=tiny"], rows=rows, tasks=[], stages={}
    )
    planned = plan_table(load(str(file)))
    with pytest.raises(
        RelposError, match="^row 'both': Rope turns queries that a part before it has made wider"
    ):
        refuse(planned, runs_of(planned), is_here=True)
    refuse(planned[:1], runs_of(planned), is_here=True)
