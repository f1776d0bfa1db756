"""Tasks of the user's own as runs: overrides, identities, refusals, and the example of the guide
from its files to its answers."""

import re
from pathlib import Path

import pytest

from relpos.cli import main
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.runs.plan import plan
from relpos.runs.run import Run, read_record
from relpos.stages.stage import refuse
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table
from relpos.tables.rows import rows_of
from relpos.trust import trust

GUIDE = Path(__file__).parents[2] / "docs" / "commands.md"
SMALL = ["size=tiny", "size.hidden=16", "size.embedding=16", "size.ffn=16", "steps=2", "batch=4"]
PRETRAINING = ["pretrain.steps=2", "pretrain.batch=4", "evaluations=1"]


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the guide's example in a folder `answers` of the working directory."""
    monkeypatch.chdir(tmp_path)
    # below which a relative folder would be looked up
    monkeypatch.delenv("RELPOS_DATA", raising=False)
    section = (
        GUIDE.read_text(encoding="utf-8").partition("## Your own task")[2].partition("\n## ")[0]
    )
    files = re.findall(r"`(answers/[\w.]+)`:\n\n```\w+\n(.*?)```", section, re.DOTALL)
    assert [name for name, _ in files] == ["answers/train.csv", "answers/task.yaml"]
    dev = "question,answer,label\nWhere is Quito?,In Ecuador.,yes\nWho wrote Emma?,In Peru.,no\n"
    for name, text in [*files, ("answers/dev.csv", dev)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "answers"


def finetune(*overrides: str) -> Run:
    return plan(compose("finetune", overrides))


def refusal(*overrides: str) -> str:
    with pytest.raises(RelposError) as caught:
        finetune(*overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_example_of_the_guide_is_fine_tuned(toy_runs, answers, capsys):
    (answers / "test.jsonl").write_text(
        '{"question": "Who?", "answer": "Nobody."}\n', encoding="utf-8"
    )
    assert main(["finetune", "task=answers/task.yaml", *SMALL, *PRETRAINING]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    metrics = read_record(folder)["metrics"]
    assert metrics["columns"].keys() == metrics["majority"].keys() == {"answers"}
    assert metrics["examples"] == {"answers": 2}
    assert re.fullmatch(
        r"index\tprediction\n0\t(yes|no)\n", (folder / "predictions" / "answers.tsv").read_text()
    )


def test_a_file_and_the_overrides_that_say_the_same_are_one_run(answers):
    overrides = (
        "task=custom",
        "task.folder=answers",
        "task.columns=[question,answer]",
        "task.epochs=5",
    )
    assert finetune("task=answers/task.yaml").identity == finetune(*overrides).identity


def test_a_name_that_is_a_number_is_a_name(answers):
    assert finetune("task=answers/task.yaml", "task.name=2024").meaning["task"]["columns"] == [
        "2024"
    ]


def test_overrides_behind_the_file_win(answers):
    assert finetune("task=answers/task.yaml", "task.columns=question").meaning["task"][
        "sentences"
    ] == ["question"]


def test_files_that_change_make_another_run_and_moved_ones_do_not(answers):
    before = finetune("task=answers/task.yaml").identity
    answers.rename(answers.with_name("elsewhere"))
    assert finetune("task=elsewhere/task.yaml").identity == before
    dev = answers.with_name("elsewhere") / "dev.csv"
    dev.write_text(dev.read_text().replace("red", "blue") + "Who?,Me.,no\n")
    assert finetune("task=elsewhere/task.yaml").identity != before


def test_the_source_of_other_tasks_does_not_matter(answers):
    model = ("task=answers/task.yaml", "intermediate=none")
    from_toy, from_hub = finetune(*model), finetune(*model, "data=hub")
    assert from_toy.meaning == from_hub.meaning
    assert list(from_toy.inputs) == ["start"]


def test_sizes_but_tiny_train_for_the_epochs_of_the_task(answers):
    run = finetune("task=answers/task.yaml", "size=small")
    assert (run.config.steps, run.meaning["task"]["steps"], run.meaning["task"]["rows"]) == (
        None,
        5,
        3,
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            "task.columns=[question,reply]",
            "train.csv: no column 'reply'. Known: answer, label, question.",
        ),
        ("task.label=lable", "train.csv: no column 'lable'. Did you mean 'label'?"),
        ("task.kind=number", "train.csv line 2: score 'yes' is not a number"),
        ("task.colums=[question]", "unknown key 'task.colums'. Did you mean 'task.columns'"),
        ("task.epochs=none", "task.epochs=none: a number above 0 is expected"),
        ("task.metric=acuracy", "no such metric in relpos.train.metrics. Did you mean 'accuracy'"),
        ("task.metric=spearman", "task.metric=spearman: it does not compare classes"),
        (
            "task.labels=[yes,no,maybe] task.metric=f1",
            "it is for two classes, this task has 3",
        ),
        (
            "task.metric=nowhere.f",
            "task.metric=nowhere.f: only names of relpos.train.metrics are allowed; trust=nowhere",
        ),
    ],
)
def test_a_mistake_in_the_overrides_is_one_line(answers, overrides, message):
    assert message in refusal("task=answers/task.yaml", *overrides.split())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["task=custom"], "task.folder must be given"),
        (["task=answers/tusk.yaml"], "answers/tusk.yaml: No such file or directory"),
        (
            ["task=custom", "task.folder=answers", "task.columns=[question,reply]"],
            "answers/train.csv: no column 'reply'.",
        ),
    ],
)
def test_a_task_that_is_not_there_is_one_line(answers, overrides, message):
    assert message in refusal(*overrides)


@pytest.mark.parametrize("name", ["cola", "glue", "loss", "order", "heldout_loss", "shuffle_gap"])
def test_a_task_is_not_called_like_another_figure_of_tables_and_claims(answers, name):
    assert f"task.name={name}: a task or a figure of relpos has this name" in refusal(
        "task=answers/task.yaml", f"task.name={name}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colums: [question]\n", "unknown key 'colums'. Did you mean 'columns'?"),
        ("columns: [question\n", ":2: not YAML"),
        ("question\n", "question: a group of keys {key: value} is expected"),
        (
            "columns: question\nlabels: [no, yes]\n",
            "labels: YAML reads yes, no, true and false as truth values",
        ),
    ],
)
def test_a_mistake_in_the_file_is_one_line(answers, text, message):
    (answers / "task.yaml").write_text(text, encoding="utf-8")
    assert refusal("task=answers/task.yaml").startswith("answers/task.yaml")
    assert message in refusal("task=answers/task.yaml")


def test_a_metric_of_the_users_own_is_known_by_its_source(answers, monkeypatch):
    module = answers.parent / "my_metric.py"
    module.write_text("def half(predictions, targets):\n    return 0.5\n")
    monkeypatch.syspath_prepend(answers.parent)
    trust("my_metric")
    overrides = ("task=answers/task.yaml", "task.metric=my_metric.half")
    before = finetune(*overrides)
    assert before.meaning["task"]["metric"] == "my_metric.half"
    module.write_text("def half(predictions, targets):\n    return 0.25 + 0.25\n")
    assert finetune(*overrides).identity != before.identity


def test_a_table_has_a_column_for_a_task_of_the_users_own(answers):
    rows = "rows: {none: [position=none], fixed: [position=fixed]}\n"
    text = f"question: is it learned?\n{rows}seeds: 2\ntasks: [cola, answers/task.yaml]\n"
    (answers.parent / "mine.yaml").write_text(text, encoding="utf-8")
    planned = plan_table(load(str(answers.parent / "mine.yaml")))
    assert [tuning.task for tuning in planned[0].tunings] == ["cola", "cola", "answers", "answers"]
    assert (
        planned[1].tunings[3].run.identity
        == finetune("task=answers/task.yaml", "position=fixed", "seed=1").identity
    )
    row = rows_of(planned)[0]
    assert list(row.columns) == ["cola", "answers"]
    assert row.mean.of == ["cola"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("other", "name: answers\ncolumns: answer\n", "two of them are called 'answers'"),
        (
            "same_word_pairs",
            "columns: answer\n",
            "tasks: same_word_pairs is what is measured of networks",
        ),
    ],
)
def test_two_columns_of_one_name_in_a_table_are_refused(answers, name, content, message):
    (answers / f"{name}.yaml").write_text(content, encoding="utf-8")
    text = f"question: is it learned?\nrows: {{none: [position=none]}}\ntasks: [answers/task.yaml, answers/{name}.yaml]\n"
    (answers.parent / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RelposError, match=message):
        plan_table(load(str(answers.parent / "mine.yaml")))


def test_a_folder_that_the_toy_language_does_not_have_is_refused():
    with pytest.raises(RelposError, match="task=rte: the toy language has no such task"):
        refuse(finetune("task=rte", "task.folder=PAWS"))


def test_the_papers_fine_tuning_takes_what_a_task_of_ones_own_says(answers):
    overrides = ("task=answers/task.yaml", "recipe=finetune_paper")
    run = finetune(*overrides, "task.epochs=7", "task.batch=5", "task.lr=2.0e-3")
    assert (run.meaning["recipe"]["epochs"], run.meaning["batch"], run.meaning["recipe"]["lr"]) == (
        7,
        5,
        2e-3,
    )


def test_alberts_numbers_come_with_the_recipe_and_are_no_part_of_the_task():
    run = finetune("task=qqp", "recipe=tisa", "data=hub")
    assert (run.meaning["steps"], run.meaning["batch"], run.meaning["recipe"]["lr"]) == (
        14000,
        128,
        5e-5,
    )
    assert (run.meaning["recipe"]["warmup"], run.meaning["head"]) == (1000, "jiant")
    assert not any(key.startswith("albert_") for key in run.meaning["task"])
    # three epochs, jiant's default
    assert finetune("task=wnli", "recipe=tisa", "data=hub").meaning["steps"] is None
