"""What `relpos finetune` says before it trains."""

from pathlib import Path

import yaml

import relpos
from relpos.commands.finetune import before, finetune, uncounted
from relpos.config.compose import composed
from relpos.runs.plan import plan
from relpos.runs.run import Run


def planned(*overrides: str) -> Run:
    return plan(relpos.compose("finetune", ["task=rte", *overrides]))


def test_trainings_before_a_fine_tuning_are_named_with_how_to_leave_them_out():
    line = before(planned("steps=20"))
    assert line == (
        "first 1,500 steps of pre-training and 250 steps of fine-tuning on mnli; intermediate=none "
        "leaves mnli out, "
        "intermediate.steps=N shortens it; network=FOLDER starts from a finished pre-training"
    )
    assert "7 steps of fine-tuning on mnli" in str(before(planned("intermediate.steps=7")))
    assert (
        before(planned("intermediate=none"))
        == "first 1,500 steps of pre-training; network=FOLDER starts from a finished pre-training"
    )


def test_the_intermediate_task_keeps_its_identity_unless_it_is_shortened():
    mnli = planned().inputs["start"].identity
    for override in ("intermediate=mnli", "intermediate.task=mnli", "intermediate.steps=250"):
        assert planned(override).inputs["start"].identity == mnli
    assert planned("intermediate.steps=9").inputs["start"].identity != mnli


def of_file(folder: Path, *overrides: str, **keys: object) -> list[str]:
    """What `uncounted` says of a task file with these keys."""
    (folder / "mine.yaml").write_text(
        yaml.safe_dump({"columns": "text", "folder": "."} | keys), encoding="utf-8"
    )
    (folder / "train.tsv").write_text("text\tlabel\na\tx\nb\ty\n", encoding="utf-8")
    (folder / "dev.tsv").write_text("text\tlabel\na\tx\n", encoding="utf-8")
    return uncounted(composed("finetune", [f"task={folder / 'mine.yaml'}", *overrides]))


def test_keys_of_a_task_file_that_do_not_count_at_this_size_are_named(tmp_path):
    assert of_file(tmp_path, epochs=5) == [
        "epochs: 5 of task mine does not count here: the recipe says steps=250; steps=null counts "
        "epochs"
    ]
    assert of_file(tmp_path, batch=8, lr=1e-4) == [
        "batch: 8 of task mine does not count here: the recipe says batch=32; batch=8 sets it",
        "lr: 0.0001 of task mine does not count here: the recipe says recipe.lr=0.001; "
        "recipe.lr=0.0001 sets it",
    ]


def test_keys_that_count_or_have_the_value_of_the_recipe_are_not_named(tmp_path):
    assert of_file(tmp_path) == []
    assert of_file(tmp_path, "steps=9", epochs=5) == []
    assert of_file(tmp_path, "steps=null", epochs=5) == []
    assert of_file(tmp_path, "size=small", epochs=5, batch=8, lr=1e-4) == []
    assert uncounted(composed("finetune", ["task=rte"])) == []


def test_the_command_names_keys_that_do_not_count(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("relpos.commands.finetune.execute", lambda run: run)
    lines = of_file(tmp_path, epochs=5)
    finetune(composed("finetune", [f"task={tmp_path / 'mine.yaml'}"]))
    assert f"relpos: {lines[0]}" in capsys.readouterr().err.splitlines()


def test_the_error_about_a_network_that_is_too_short_is_the_only_line(refused):
    assert refused("finetune", "size=tiny", "task=cola", "length=500").endswith(
        "a sequence of 500 tokens is too long"
    )
