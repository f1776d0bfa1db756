"""Loggers besides ours: any of Lightning's by its name, a function of the user's own."""

import csv
import json
import shlex
import sys
from pathlib import Path

import pytest

import relpos
from relpos import compose
from relpos.cli import main
from relpos.runs.plan import plan
from relpos.runs.shelf import logged
from relpos.train.loggers import JsonLines
from wandb_file import read

TINY = ["size=tiny", "steps=2", "batch=4", "evaluations=1", "log_every=1", "position=none"]
CSV = ["logger=custom", "logger._target_=pytorch_lightning.loggers.CSVLogger", "+logger.name=told"]
OWN = """
from pytorch_lightning.loggers import CSVLogger


def logger(word, key="", *, run, folder):
    (folder / "told.txt").write_text(f"{word} {run['name']}{key[::-1]}")
    return CSVLogger(folder, flush_logs_every_n_steps=1)
"""


def test_a_logger_of_lightnings_writes_into_the_runs_folder_and_changes_no_identity(toy_runs):
    run = relpos.run(compose("pretrain", [*TINY, *CSV]))
    assert run.identity == plan(compose("pretrain", TINY)).identity
    (written,) = run.path.rglob("metrics.csv")
    assert written.parent.parent == run.path / "told"
    losses = [float(row["loss"]) for row in csv.DictReader(written.open()) if row["loss"]]
    assert losses == [line["loss"] for line in logged(run.path) if "loss" in line]
    assert f"identity: {run.identity}" in (written.parent / "hparams.yaml").read_text()


@pytest.mark.parametrize(
    "harm",
    [Path.unlink, lambda path: path.write_text('{"step": 1}\n'), lambda path: path.write_text("")],
)
def test_a_log_that_is_deleted_or_cut_is_whole_again_with_the_next_line(tmp_path, harm):
    log = JsonLines(tmp_path / "metrics.jsonl", 0)
    for step in (1, 2, 3):
        log.log_metrics({"loss": 0.5}, step)
        if step == 2:
            harm(log.path)
    assert [json.loads(line) for line in log.path.read_text().splitlines()] == [
        {"step": n, "loss": 0.5} for n in (1, 2, 3)
    ]


def test_a_function_of_the_users_own_is_told_what_the_run_is(toy_runs, tmp_path, monkeypatch):
    (tmp_path / "my_loggers.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    own = ["logger=custom", "logger._target_=my_loggers.logger", "+logger.word=hello"]
    assert main(["pretrain", *TINY, *own]) == 0
    (file,) = toy_runs.rglob("told.txt")
    assert file.read_text() == f"hello {file.parent.name}"


@pytest.mark.parametrize("more", [[], ["-m"]])
@pytest.mark.parametrize(
    ("typed", "recorded"), [("'s3cret/ =1'", "…"), ("${oc.env:MY_KEY}", "${oc.env:MY_KEY}")]
)
def test_the_arguments_of_a_logger_stand_in_no_file(
    toy_runs, tmp_path, monkeypatch, more, typed, recorded
):
    (tmp_path / "my_loggers.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "s3cret/ =1")
    own = [
        "logger=custom",
        "logger._target_=my_loggers.logger",
        '+logger.word="it\'s"',
        f"+logger.key={typed}",
    ]
    assert main(["pretrain", *more, *TINY, *own, "seed=1,2" if more else "seed=3"]) == 0
    files = [*toy_runs.rglob("told.txt")]
    assert [path.read_text() for path in files] == [
        f"it's {path.parent.name}1= /terc3s" for path in files
    ]
    assert len(files) == 1 + len(more)
    written = [
        path for path in toy_runs.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()
    ]
    assert not written
    command = json.loads((files[0].parent / "record.json").read_text())["command"]
    assert shlex.split(command)[-3:-1] == ["+logger.word=…", f"+logger.key={recorded}"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["logger=custom"], "logger._target_ must be given"),
        (
            ["logger=custom", "logger._target_=pytorch_lightning.loggers.CSVLoger"],
            "logger._target_: cannot import",
        ),
        (
            ["logger=custom", "logger._target_=collections.OrderedDict"],
            "logger._target_: collections.OrderedDict is not a",
        ),
        (
            ["logger=custom", "logger._target_=textwrap.dedent"],
            "logger: textwrap.dedent: missing a required argument",
        ),
        ([*CSV, "+logger.nam=x"], "unknown key 'logger.nam'. Did you mean 'name'?"),
    ],
)
def test_a_wrong_logger_is_refused_before_anything_is_made(overrides, message, refused, tmp_path):
    assert message in refused("pretrain", *TINY, *overrides)
    assert not (tmp_path / "runs" / "toy").exists()


@pytest.mark.parametrize(
    ("change", "scheme"), [([], "modernbert"), (["change.tisa=2", "change.start=random"], "+tisa")]
)
def test_wandb_knows_the_network_the_text_and_the_tokenizer_of_a_fine_tuning(
    toy_runs, change, scheme
):
    corpus = str(next(toy_runs.glob("toy/*/corpus")))
    text = ["data=files", f"data.corpus={corpus}", "vocabulary=5000", "data.pairs=64", "length=16"]
    before = relpos.run(
        compose(
            "pretrain",
            ["size=tiny", "steps=1", "batch=4", "evaluations=1", "position=modernbert", *text],
        )
    )
    short = [
        "task=rte",
        "intermediate=none",
        "recipe=finetune_tiny",
        "steps=1",
        "batch=4",
        "length=16",
        "logger=wandb",
    ]
    tuned = relpos.run(compose("finetune", [*short, f"network={before.path}", *change]))
    (file,) = tuned.path.rglob(f"run-{tuned.identity}.wandb")
    run = read(file)["run"]
    assert run["tags"][0].endswith(scheme)
    config = run["config"]
    assert config["scheme"] == run["tags"][0]
    assert (config["network"], config["data"]["corpus"]) == (before.path.name, corpus)
    assert config["tokenizer"] == before.inputs["tokenizer"].path.name
    assert config["vocabulary"] == before.inputs["tokenizer"].metrics["pieces"] < 5000
    assert (config["size"]["layers"], config["conv"]["_target_"]) == (2, "relpos.model.conv.NoConv")
    assert "Layers" in str(config["position"])
    assert ("Tisa" in str(config["position"])) == bool(change)


def test_a_logger_without_its_package_or_with_an_unknown_mode_is_refused_before_any_run_begins(
    toy_runs, refused, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setenv("WANDB_MODE", "of")
    short = [*TINY, "vocabulary=150"]  # no tokenizer of that size is there
    assert refused("pretrain", *short, "logger=tensorboard").endswith(
        "logger=tensorboard needs tensorboard: pip install tensorboard"
    )
    assert "WANDB_MODE=of" in refused("pretrain", *short, "logger=wandb")
    assert not [*toy_runs.glob("pretrain/*"), *toy_runs.glob("tokenizer/toy-150-*")]
