"""The identity of a run is what can change its result, and nothing else."""

import json
from dataclasses import asdict

import pytest

from relpos.config.compose import compose, composed
from relpos.data.source import READING
from relpos.readers import fitted
from relpos.runs.plan import plan
from relpos.runs.run import Description, Run
from relpos.stages.finetune import with_task
from relpos.trust import trust

OUTSIDE = """
from relpos.model.position import Scheme


class Mine(Scheme):
    def __init__(self, shape, x=1):
        super().__init__(shape)
"""

EARLIER = [
    ("pretrain", "size.dropout=0", "dbca215d415d"),
    ("pretrain", "position=composite k=4 outside=zero", "e78abf82a0a1"),
    ("pretrain", "size=small position=tisa kernels=3 conv=depthwise", "7219b7b229d1"),
    ("pretrain", "recipe.lr=1e-4 recipe.clip=1 recipe.betas=[0.9,0.98]", "bc13146f015a"),
    ("pretrain", "first.share=0.9 steps=100", "057d9b06bfbf"),
    ("pretrain", "data.pairs=1000 data.heldout=0.1 precision=bf16", "6b7874844519"),
    ("pretrain", "size=albert_base position=absolute_composite packing=document", "0b53ef1ee2af"),
    ("finetune", "task=rte position=composite size=small", "f235c38ec74a"),
    ("finetune", "task=rte intermediate=none steps=20", "8a566b936a4e"),
    ("finetune", "task=stsb recipe=finetune_paper size=base", "7c1c0b0f2fc0"),
    ("finetune", "task=mnli seed=3 pretrain.steps=40 pretrain.first.share=0.5", "c275da934b92"),
    ("data", "vocabulary=500", "3913759f6113"),
]
"""Computed when version 3 of pre-training and fine-tuning began. A change on purpose is a new
`version` of the stage."""


@pytest.mark.parametrize(("command", "overrides", "identity"), EARLIER)
def test_a_run_of_an_earlier_version_is_found_by_the_same_overrides(command, overrides, identity):
    assert plan(compose(command, overrides.split())).identity == identity


def pretrain(*overrides: str) -> Run:
    return plan(compose("pretrain", overrides))


def finetune(*overrides: str) -> Run:
    return plan(compose("finetune", overrides))


def test_a_dial_that_nothing_reads_changes_nothing():
    assert len({pretrain("position=none", f"kernels={s}").identity for s in (1, 3, 5)}) == 1
    assert pretrain("position=none", "k=2").identity == pretrain("position=none").identity


@pytest.mark.parametrize(
    "override",
    [
        "k=2",
        "seed=1",
        "steps=7",
        "batch=8",
        "precision=bf16",
        "size.layers=3",
        "block=modern",
        "size.qk_norm=true",
        "recipe.lr=1e-4",
        "recipe.position_lr=10",
        "recipe.conv_lr=10",
        "recipe.optimizer=muon",
        "recipe.masking=0.3",
        "recipe.masking=[0.3,0.15]",
        "training=modern",
        "data.pairs=9",
        "outside=zero",
        "data.seed=1",
        "data.shuffle=1",
        "first.share=0.5",
        "vocabulary=100",
    ],
)
def test_what_changes_the_result_changes_the_identity(override):
    assert (
        pretrain("position=composite", override).identity != pretrain("position=composite").identity
    )


def test_a_rate_for_each_part_changes_the_identity():
    merged = "position=absolute_tisa"
    assert pretrain(merged, "recipe.position_lr=[1,10]").identity != pretrain(merged).identity


@pytest.mark.parametrize(
    "override",
    [
        "logger=tensorboard",
        "speed.threads=1",
        "speed.microbatch=1",
        "recipe.position_lr=1.0",
        "recipe.position_lr=[1,1]",
        "recipe.conv_lr=1",
        "block=papers",
        "recipe.optimizer=adamw",
        "recipe.masking=0.15",
        "data.shuffle=null",
        "recipe.masking=[0.15,0.15]",
        "objective=bert",
        "training=papers",
        "size.bias=true",
        "speed.kernel=eager",
        "log_every=3",
        "checkpoint_every=9",
        "snapshots=[50]",
        "evaluations=2",
    ],
)
def test_machine_and_logging_do_not_change_the_identity(override):
    assert pretrain(override).identity == pretrain().identity


def test_shuffled_text_has_the_pieces_of_the_text_as_it_stands():
    natural, shuffled = pretrain(), pretrain("data.shuffle=2")
    assert shuffled.inputs["tokenizer"].identity == natural.inputs["tokenizer"].identity
    assert shuffled.inputs["store"].identity != natural.inputs["store"].identity


def test_a_fine_tuning_starts_from_the_pre_training_that_its_overrides_name():
    run = finetune(
        "position=composite", "pretrain.seed=3", "pretrain.steps=40", "seed=1", "steps=5", "k=4"
    )
    assert (
        run.inputs["start"].identity
        == pretrain("position=composite", "seed=3", "steps=40", "k=4").identity
    )


def test_the_intermediate_task_is_a_run_of_its_own_with_the_same_seed():
    rte = finetune("task=rte", "seed=5")
    assert rte.inputs["start"].identity == finetune("task=mnli", "seed=5").identity
    assert finetune("task=rte", "intermediate=none").inputs["start"].stage == "pretrain"


def test_another_task_takes_its_own_hyperparameters():
    content = composed("finetune", ["size=small", "task=cola"])
    other = plan(with_task(content, "qnli", seed=2))
    assert other.identity == finetune("size=small", "task=qnli", "seed=2").identity


def test_a_plan_needs_no_data():
    run = pretrain("data=files", "data.root=nowhere")
    assert run.state == "missing"


def test_a_plan_travels_as_plain_values():
    run = finetune("task=rte")
    assert fitted(json.loads(json.dumps(asdict(run))), Description).run().identity == run.identity


def test_a_file_that_changes_makes_another_run(tmp_path):
    corpus = tmp_path / "text.txt"
    corpus.write_text("one sentence\n")
    before = pretrain("data=files", f"data.corpus={corpus}").identity
    corpus.write_text("another sentence\n")
    assert pretrain("data=files", f"data.corpus={corpus}").identity != before


def test_a_scheme_from_outside_is_known_by_its_source(tmp_path, monkeypatch):
    module = tmp_path / "outside_scheme.py"
    module.write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    trust("outside_scheme")
    overrides = ("position=none", "position._target_=outside_scheme.Mine", "+position.x=3")
    before = pretrain(*overrides).identity
    module.write_text(module.read_text() + "# changed\n")
    assert pretrain(*overrides).identity != before


def test_how_text_is_read_is_part_of_the_identity_of_text_that_is_not_generated(tmp_path):
    (tmp_path / "a.txt").write_text("One.\n", encoding="utf-8")
    of_files, of_toy = (
        plan(compose("data", words)) for words in (["data=files", f"data.corpus={tmp_path}"], [])
    )
    for run in (of_files, of_files.inputs["tokenizer"]):
        assert run.meaning["reading"] == READING
    assert "reading" not in of_toy.meaning


def test_a_folder_names_its_text_and_the_run_is_found_under_any_name(tmp_path):
    names = {}
    for corpus in ("wiki", "other/news"):
        (tmp_path / corpus).mkdir(parents=True)
        (tmp_path / corpus / "text.txt").write_text("The dog saw a cat.\n" * 9)
        names[corpus] = ["data=files", f"data.corpus={tmp_path / corpus}", "size=tiny"]
    run = plan(compose("pretrain", names["wiki"]))
    assert run.path.name == f"absolute-2x64-files-wiki-seed0-{run.identity}"
    tuned = plan(compose("finetune", [*names["wiki"], "task=cola", "intermediate=none"]))
    assert tuned.name == "cola-absolute-2x64-seed0"
    run.update(state="finished")
    same_text = plan(compose("pretrain", names["other/news"]))
    assert same_text.name == "absolute-2x64-files-news-seed0"
    assert (same_text.path, same_text.state) == (run.path, "finished")
    assert plan(compose("pretrain", ["size=tiny"])).name == "absolute-2x64-toy-seed0"
