"""`relpos export`."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import relpos
from linked import pretrained
from pretend import measured
from relpos.cli import main
from relpos.commands.export import _without_folders, card
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.files import write_text
from relpos.model.architecture import Architecture, Size
from relpos.model.build import classifier_on
from relpos.model.heads import Classifier
from relpos.runs.networks import Network
from relpos.runs.plan import plan
from relpos.runs.run import Record, read_record
from relpos.tables import experiment
from relpos.train.weights import opened, save_model

pytest.importorskip("transformers", reason="needs relpos[pretrained]")


@pytest.fixture(scope="module")
def runs(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two pre-trainings of two steps, one with a snapshot."""
    overrides = {
        "fixed": ["position=fixed", "snapshots=[50]"],
        "absolute": ["position=absolute", "size.embedding=64"],
    }
    return pretrained(prepared, tmp_path_factory.mktemp("runs"), overrides)


def exported(capsys: pytest.CaptureFixture[str], run: Path, to: Path) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["export", f"network={run}", f"to={to}"]) == 0
    assert capsys.readouterr().out == f"{to}\n"
    content: dict[str, Any] = json.loads((to / "config.json").read_text())
    return content


def exported_card(capsys: pytest.CaptureFixture[str], run: Path, to: Path) -> str:
    exported(capsys, run, to)
    return (to / "README.md").read_text()


def copied(run: Path, folder: Path, **record: str) -> Path:
    """A copy of a run, with these keys in its record."""
    copy = shutil.copytree(run, folder)
    (copy / "record.json").write_text(json.dumps(read_record(copy) | record))
    return copy


def classifier(folder: Path) -> tuple[Classifier, Tokenizer]:
    """A classifier on the encoder of a model folder, and its tokenizer."""
    return classifier_on(opened(folder), 2, 0.1), load_tokenizer(folder)


def same(first: Path, second: Path) -> bool:
    (model, _), (other, _) = relpos.load(first), relpos.load(second)
    return all(
        torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items()
    )


def test_an_exported_run_has_its_weights_and_its_record(runs, tmp_path, capsys):
    for name, kind in (("fixed", "relpos"), ("absolute", "bert")):
        to = tmp_path / name
        assert exported(capsys, runs[name], to)["model_type"] == kind
        assert same(runs[name], to)
        card = (to / "README.md").read_text()
        record = json.loads((runs[name] / "record.json").read_text())
        assert f"# {runs[name].name}\n" in card
        assert f"| heldout_loss | {record['metrics']['heldout_loss']:.6g} |" in card
        assert f"commit: {record['commit'] or 'not recorded'}" in card
        assert (
            ("import relpos  #" in card)
            == ("trust_remote_code=True)" in card)
            == (kind == "relpos")
        )
        assert str(tmp_path) not in card
        assert record["starts"][0]["host"] not in card.split()


def test_a_fine_tuning_is_exported_as_a_classifier_with_the_labels_of_its_task(
    runs, tmp_path, capsys
):
    overrides = [f"network={runs['absolute']}", "task=rte", "intermediate=none", "length=32"]
    planned = plan(relpos.compose("finetune", overrides))
    save_model(planned.path / "model", *classifier(runs["absolute"] / "model"))
    write_text(planned.path / "config.yaml", "{}")
    planned.update(
        stage="finetune",
        state="finished",
        meaning=planned.meaning,
        metrics={"columns": {"rte": 50.0}},
    )
    config = exported(capsys, planned.path, tmp_path / "out")
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "entailment", "1": "not_entailment"}
    assert "| rte | 50 |" in (tmp_path / "out/README.md").read_text()


def test_the_card_has_the_question_of_the_table_that_a_run_was_made_for(runs, tmp_path, capsys):
    run = shutil.copytree(runs["fixed"], tmp_path / "run")
    with (run / "config.yaml").open("a") as file:
        file.write("table: demo\nrow: my row\n")
    card = exported_card(capsys, run, tmp_path / "out")
    assert f"Trained for the question: {experiment.load('demo').question}" in card
    assert "Row `my row` of the table `demo`." in card
    assert "relpos reproduce table=demo 'rows=[my row]'" in card


def test_the_card_has_the_command_without_folders(runs, tmp_path, capsys):
    command = "relpos pretrain data=files 'data.root=/somewhere/my texts' k=2"
    run = copied(runs["fixed"], tmp_path / "run", command=command)
    card = exported_card(capsys, run, tmp_path / "out")
    assert "```sh\nrelpos pretrain data=files 'data.root=my texts' k=2\n```" in card
    assert "/somewhere" not in card


@pytest.mark.parametrize(
    ("typed", "published"),
    [
        ("--config-dir /somewhere/me/schemes position=mine", "--config-dir schemes position=mine"),
        ("--config-dir=/somewhere/me/schemes/", "--config-dir=schemes/"),
        ("'data.texts=[{path: /somewhere/me/x.txt}]'", "'data.texts=[{path: x.txt}]'"),
        (
            "'data.texts=[{path:/somewhere/me/x.txt},{id: /somewhere/me/books/}]'",
            "'data.texts=[{path:x.txt},{id: books/}]'",
        ),
        ("network=~/runs/x task=/my.yaml", "network=x task=my.yaml"),
        ("network=~me/runs/x task=../mine/my.yaml", "network=x task=my.yaml"),
        ("data.root=/somewhere/me/ k=2", "data.root=me/ k=2"),
        ("'data.root=/somewhere/my texts/a b'", "'data.root=a b'"),
        (r"'data.root=/somewhere/me\, you/c\)d/e'", "data.root=e"),
        (
            """'data.texts=["/somewhere/me, you/d.txt","/e/f.txt"]'""",
            """'data.texts=["d.txt","f.txt"]'""",
        ),
        ("'network=[/a/b,/c/d]' data.root=/", "'network=[b,d]' data.root=/"),
        (
            "+logger.key=me 'logger.word=a b' pretrain.logger.key=c",
            "'+logger.key=…' 'logger.word=…' 'pretrain.logger.key=…'",
        ),
    ],
)
def test_of_a_path_in_a_command_its_last_part_is_published(typed, published):
    assert _without_folders(f"relpos pretrain {typed}") == f"relpos pretrain {published}"


@pytest.mark.parametrize(
    "typed",
    [
        "-m position=none,absolute hydra/launcher=joblib",
        "'recipe.masking=[0.15,0.3]' '+position.std=.2' trust=my_module",
        "network=google/bert_uncased@main task=rte",
        "network=demo:fixed data.root=texts/mine",
        "data=hub 'data.texts=[{id: wikimedia/wikipedia, name: 20231101.en}]' '~conv'",
    ],
)
def test_words_that_are_no_path_stay_in_the_command(typed):
    words = shlex.split(f"relpos pretrain {typed}")
    assert _without_folders(shlex.join(words)) == shlex.join(words)


def test_a_command_with_an_open_quote_is_not_published():
    assert _without_folders("relpos pretrain 'data.root=/somewhere/me") is None


def test_no_name_in_a_card_is_markup(tmp_path):
    folder = tmp_path / "a <img src=x> [b](http:c) `d`\n# Evil"
    folder.mkdir()
    record = Record(meaning={"note": "```\n# Evil"}, metrics={"loss|x\n# Evil": 1.0})
    size = Size(layers=1, hidden=8, embedding=8, heads=2, ffn=8)
    architecture = Architecture(size, {"_target_": "Composite"}, {"_target_": "NoConv"}, 9)
    network = Network("run", folder, Path("weights"), record=record)
    text = card(network, architecture, {"model_type": "relpos"})
    assert r"# a \<img src=x> \[b\](http:c) \`d\` # Evil" in text.splitlines()
    assert r"| loss\|x # Evil | 1 |" in text.splitlines()
    assert "\n````yaml\n" in text


def test_the_card_has_what_was_measured_of_this_network(runs, tmp_path, capsys):
    run = shutil.copytree(runs["fixed"], tmp_path / "run")
    for share, gap in ((50, 0.25), (100, 1.5)):
        results = {
            "shuffle_gap": {"all": gap},
            "shuffle_gap_intervals": {"all": [gap - 0.1, gap + 0.1]},
            "heldout_loss": 9.5,
            "by_example": {"all": [gap], "predicted": [1]},
        }
        measured(run, "shuffle", results, examples=7, share=share)
    for mark, accuracy in (("0", 0.0), ("1", 100.0)):
        group = {"accuracy": accuracy, "interval": [0.0, 100.0], "n": 1, "guess": 50.0}
        pairs = {"same_words": group, "others": {"accuracy": None}}
        results = {"pairs": pairs, "answers": {"same_words": {"p": mark}}}
        measured(run, "pairs", results, form="plain", pairs=mark)
    whole = exported_card(capsys, run, tmp_path / "whole")
    assert "| shuffle gap, nats, 7 examples | 1.500 (1.400 to 1.600) |" in whole
    assert (
        "| same-word pairs, 1 pairs, plain | 0.000 (0.000 to 100.000); 100.000 (0.000 to 100.000) |"
        in whole
    )
    half = exported_card(capsys, run / "snapshots/50.safetensors", tmp_path / "half")
    assert "after 50 % of its steps" in half
    assert "| shuffle gap, nats, 7 examples | 0.250 (0.150 to 0.350) |" in half
    assert "| held-out loss, nats, 7 examples | 9.500 |" in half
    assert "| heldout_loss |" not in half  # that is of the last step


def test_the_card_resolves_nothing_that_a_run_of_somebody_else_says(
    runs, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("ONLY_MINE", "demo")
    run = shutil.copytree(runs["fixed"], tmp_path / "run")
    with (run / "config.yaml").open("a") as file:
        file.write("table: ${oc.env:ONLY_MINE}\n")
    assert "Trained for the question" not in exported_card(capsys, run, tmp_path / "out")


def test_model_folders_and_snapshots_are_exported_too(runs, tmp_path, capsys):
    run, alone = runs["fixed"], shutil.copytree(runs["fixed"] / "model", tmp_path / "alone")
    for number, named in enumerate((run / "model", alone)):
        exported(capsys, named, tmp_path / str(number))
        assert same(run, tmp_path / str(number))
    exported(capsys, run / "snapshots/50.safetensors", tmp_path / "half")
    assert not same(run, tmp_path / "half")
    assert "No record of the training" in (tmp_path / "1/README.md").read_text()


def test_snapshots_are_exported_as_revisions_named_by_the_words_read(runs, tmp_path, refused):
    to = tmp_path / "out"
    assert main(["export", f"network={runs['fixed']}", f"to={to}", "words=100"]) == 0
    assert sorted(path.name for path in to.iterdir()) == ["chck_100M", "chck_50M", "main"]
    assert same(to / "chck_50M", runs["fixed"] / "snapshots/50.safetensors")
    assert same(to / "chck_100M", runs["fixed"])
    assert same(to / "main", runs["fixed"])
    assert "after 50 % of its steps" in (to / "chck_50M/README.md").read_text()
    for network in (runs["absolute"], runs["fixed"] / "snapshots/50.safetensors"):
        assert "is no run with snapshots" in refused(
            "export", f"network={network}", f"to={tmp_path}/new", "words=100"
        )
    assert not (tmp_path / "new").exists()


def test_a_mistaken_export_is_one_line_and_writes_nothing(runs, tmp_path, refused, capsys):
    exported(capsys, runs["absolute"], tmp_path / "there")
    unfinished = copied(runs["fixed"], tmp_path / "unfinished", state="running")
    for run, to, message in (
        (runs["fixed"], "there", "already exists"),
        (tmp_path / "nowhere", "new", "no such folder or file. Did you mean 'there'?"),
        (runs["fixed"], "a" * 300, "File name too long"),
        (unfinished, "new", "not finished (its record says running)"),
        (tmp_path / "there", "new", "this is a folder of Hugging Face already"),
    ):
        assert message in refused("export", f"network={run}", f"to={tmp_path / to}")
    assert not (tmp_path / "new").exists()


def test_of_several_revisions_none_is_written_where_one_cannot_be(runs, tmp_path, refused):
    (tmp_path / "chck_100M").mkdir()
    (tmp_path / "chck_100M/mine").touch()
    assert "is not an empty folder" in refused(
        "export", f"network={runs['fixed']}", f"to={tmp_path}", "words=100"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["chck_100M"]
