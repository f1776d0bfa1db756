"""What cannot be trained, or not be evaluated, is refused before the training."""

from contextlib import nullcontext
from pathlib import Path

import pytest

import relpos
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.stages.stage import Stage, refuse


@pytest.fixture
def own_task(tmp_path: Path) -> list[str]:
    """Keys of a task of the user's own, whose files lie in `tmp_path`."""
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\na dog\tyes\na cat\tno\n")
    return ["task=custom", f"task.folder={tmp_path}", "task.columns=text", "task.name=own"]


SMALL = [
    "size.layers=1",
    "size.hidden=16",
    "size.embedding=16",
    "size.ffn=16",
    "speed.accelerator=cpu",
]


def test_a_first_phase_longer_than_a_table_of_positions_is_refused():
    run = plan(compose("pretrain", ["first.share=0.5", "first.length=256"]))
    with pytest.raises(RelposError, match="a sequence of 256 tokens is too long"):
        refuse(run)


def test_held_out_text_without_an_example_is_refused(tmp_path):
    single = [f'{{"text": "The dog saw {number} cats."}}\n' for number in range(1500)]
    several = [
        f'{{"text": "The dog ran. A cat saw {number}. It ran. The dog sat."}}\n'
        for number in range(20)
    ]
    (tmp_path / "a.jsonl").write_text("".join(single + several))
    given = [
        "data=files",
        f"data.corpus={tmp_path}/a.jsonl",
        "vocabulary=60",
        "steps=4",
        "batch=4",
        *SMALL,
    ]
    with pytest.raises(RelposError, match="^data: the held-out text makes 0 examples"):
        relpos.run(compose("pretrain", given))


def test_a_task_that_is_its_own_intermediate_task_is_refused(tmp_path, own_task):
    file = tmp_path / "own.yaml"
    file.write_text(f"columns: text\nintermediate: {file}\n")
    with pytest.raises(RelposError, match="would be fine-tuned before itself"):
        plan(compose("finetune", [f"task={file}"]))


def test_a_mistake_in_a_test_file_shows_before_training(tmp_path, own_task):
    (tmp_path / "test.tsv").write_text("txt\na dog\n")
    dials = ["data.pairs=100", "vocabulary=300", "steps=2", "pretrain.steps=1", "pretrain.batch=4"]
    cfg = compose("finetune", [*own_task, *SMALL, *dials])
    with pytest.raises(RelposError, match="no column 'text'"):
        relpos.run(cfg)
    assert not (plan(cfg).path / "metrics.jsonl").exists()


def test_a_configuration_that_makes_no_run_is_refused_in_one_line():
    with pytest.raises(
        RelposError, match="makes no run; those of data, pretrain and finetune make one"
    ):
        relpos.run(compose("params"))


def test_files_that_change_between_a_plan_and_its_turn_are_refused(tmp_path, own_task):
    """Their store would have the identity, and be taken for that, of the text as it was."""
    text, train = tmp_path / "text.txt", tmp_path / "train.tsv"
    text.write_text(sentences := "".join(f"The dog saw {number} cats.\n" for number in range(100)))
    store = plan(compose("data", ["data=files", f"data.corpus={text}", "vocabulary=40"]))
    tuning = plan(compose("finetune", own_task))
    assert isinstance(tuning, Stage)
    tuning.refuse_changed()
    text.write_text(sentences * 2)
    train.write_text(train.read_text() + "a dog\tno\n")
    for reads, run in ((execute, store), (lambda run: run.refuse_changed(), tuning)):
        with pytest.raises(RelposError, match="have changed since it was planned"):
            reads(run)
    text.write_text(sentences)
    assert execute(store).state == "finished"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_kernel_that_does_not_serve_the_scheme_is_refused_before_the_store_is_made(precision):
    asked = ["speed.kernel=fused", f"precision={precision}"]
    for position in ("composite", "rope", "absolute"):
        refuse(plan(compose("pretrain", [f"position={position}", *asked])))
    with pytest.raises(
        RelposError, match="^speed.kernel=fused does not serve this position scheme"
    ):
        refuse(plan(compose("pretrain", ["position=shaw", *asked])))


def test_parts_whose_tables_of_values_have_no_sum_are_refused_before_the_store_is_made():
    shaw = "{_target_: relpos.model.position.Dynamic, k: 2, value: true, outside: %s}"
    for ends, expectation in (
        (("clamp", "clamp"), nullcontext()),
        (("clamp", "zero"), pytest.raises(RelposError, match="^tables of values with outside=")),
    ):
        parts = ",".join(shaw % outside for outside in ends)
        run = plan(compose("pretrain", ["position=merge", f"position.parts=[{parts}]"]))
        with expectation:
            refuse(run)


@pytest.mark.parametrize("asked", ["speed.accelerator=gpu", "speed.kernel=triton"])
def test_a_gpu_that_is_not_there_is_refused_before_the_store_is_made(asked, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(RelposError, match=f"^{asked}: torch finds no GPU on this machine"):
        refuse(plan(compose("pretrain", [asked])))
