"""What a file may name: nothing outside relpos is imported or called unless the user has named its
module."""

import json
import os
import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import relpos
from relpos.claims.claim import Claim
from relpos.cli import main
from relpos.errors import RelposError
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table
from relpos.trust import find, instantiate, refuse_names, trust, trust_typed
from tables.small_data import write_experiment

EVIL = """
from pathlib import Path

from relpos.model.position import Scheme

Path(r"{marker}").touch()


class X(Scheme):
    def count(self, shape):
        return 0


def f(*arguments, **more):
    return 1.0
"""
SHORT = ["size=tiny", "steps=1", "batch=2", "evaluations=1"]
STRANGERS = [
    "evil.f",
    "os.mkdir",
    "antigravity.geohash",
    "relpos.files.os.mkdir",
    "relpos.files.write_text",
]


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the import of `evil`, beside which the test stands, makes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL.format(marker=tmp_path / "marker"))
    # so that nothing but the refusal keeps it from being imported
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "marker"


@pytest.mark.parametrize("command", [["export", "to=there"], ["analyze", "kernels"]])
@pytest.mark.parametrize("part", ["position", "conv"])
def test_a_model_folder_runs_nothing(command, part, marker, model_folder, refused):
    file = model_folder / "config.yaml"
    text = file.read_text(encoding="utf-8")
    ours = {"position": "relpos.model.position.Composite", "conv": "relpos.model.conv.NoConv"}[part]
    assert ours in text
    file.write_text(text.replace(ours, "evil.X"))
    line = refused(*command, f"network={model_folder}")
    assert str(file) in line
    assert f"{part}._target_=evil.X" in line
    assert "trust=evil" in line
    assert not marker.exists()


def test_a_folder_of_relpos_export_runs_nothing(marker, toy_runs, refused):
    folder = marker.parent / "exported"
    run = relpos.run(relpos.compose("pretrain", [*SHORT, "position=fixed"])).path
    assert main(["export", f"network={run}", f"to={folder}"]) == 0
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    assert config["model_type"] == "relpos"
    parts = [config["position"], {"_target_": "evil.X"}]
    config["position"] = {"_target_": "relpos.model.position.Merge", "parts": parts}
    file.write_text(json.dumps(config))
    line = refused("analyze", "kernels", f"network={folder}")
    assert f"{file}: position.parts.1._target_=evil.X" in line
    assert not marker.exists()


def test_a_pretraining_record_runs_nothing(marker, toy_runs, refused):
    overrides = [*SHORT, "position=none", "snapshots=[50,100]"]
    run = relpos.run(relpos.compose("pretrain", overrides)).path
    for file in (run / "config.yaml", run / "model" / "config.yaml"):
        file.write_text(
            file.read_text(encoding="utf-8").replace("relpos.model.position.NoPosition", "evil.X")
        )
    for name in (run, run / "snapshots" / "50.safetensors"):
        assert "trust=evil" in refused("analyze", "kernels", f"network={name}")
    network = f"network={run}"
    main(["order", network])
    main(["analyze", "lengths", network])
    main(["compare", str(run), str(run)])
    main(["finetune", "size=tiny", "task=cola", network, "steps=1"])
    assert not marker.exists()


EXPERIMENT = """
question: is it run?
base: [size=tiny, steps=1, batch=2, evaluations=1, {base}]
rows: {{none: [position=none], other: [{row}]}}
tasks: [{task}]
"""


@pytest.mark.parametrize(
    ("where", "override"),
    [
        ("row", "position._target_=evil.X"),
        ("row", "'position={_target_: evil.X, _partial_: true}'"),
        ("row", "position=merge, 'position.parts=[{_target_: evil.X}]'"),
        ("row", "conv._target_=evil.X"),
        ("row", "data._target_=evil.f"),
        ("row", "data._target_=os.mkdir, +data.path=marker"),
        ("row", "data._target_=relpos.data.toy.write, +data.folder=marker"),
        ("row", "data._target_=relpos.files.write_text, +data.path=marker, +data.content=x"),
        ("row", "+logger._target_=evil.f"),
        ("row", "+logger._target_=relpos.train.loggers.os.mkdir"),
        ("row", "+logger._target_=relpos.files.write_text, +logger.path=marker, +logger.content=x"),
        ("base", "+speed._target_=evil.f"),
        ("base", "+anything._target_=evil.f"),
        ("base", "'hydra.searchpath=[pkg://evil]'"),
        ("task", "evil.yaml"),
    ],
)
@pytest.mark.parametrize("command", [["reproduce", "dry_run=true"], ["status"]])
def test_an_experiment_file_runs_nothing(command, where, override, marker, toy_runs, refused):
    parts = {"base": "seed=0", "row": "seed=0", "task": ""} | {where: override}
    (marker.parent / "travelled.yaml").write_text(EXPERIMENT.format(**parts))
    (marker.parent / "evil.yaml").write_text("columns: text\nmetric: evil.f\n")
    line = refused(*command, f"table={marker.parent / 'travelled.yaml'}")
    assert any(words in line for words in ("evil", "only names of relpos", "cannot import"))
    assert not marker.exists()


@pytest.mark.parametrize(
    "row",
    [
        "'logger.project=${oc.env:WANDB_API_KEY}'",
        r"'logger.project=$\{oc.env\:WANDB_API_KEY\}'",  # which Hydra reads as the first
        """ "logger.group=oc.env", "logger.project='${${logger.group}:WANDB_API_KEY}'" """,
    ],
)
def test_an_experiment_file_reads_no_secret(row, tmp_path, toy_runs, refused):
    (tmp_path / "travelled.yaml").write_text(EXPERIMENT.format(base="seed=0", row=row, task=""))
    line = refused("reproduce", "dry_run=true", f"table={tmp_path / 'travelled.yaml'}")
    assert "a file may refer to other keys" in line


@pytest.mark.parametrize("metric", STRANGERS)
def test_a_task_file_calls_nothing(metric, marker, toy_runs, capsys, tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\none\tyes\ntwo\tno\n")
    file = tmp_path / "task.yaml"
    file.write_text(f"name: mine\ncolumns: text\nmetric: {metric}\n")
    for command in (["finetune", "size=tiny"], ["finetune", "--help"]):
        main([*command, f"task={file}"])
    stderr = capsys.readouterr().err
    assert f"{file}: metric={metric}: only names of relpos.train.metrics are allowed" in stderr
    with pytest.raises(RelposError, match="only names of"):
        instantiate({"_target_": metric}, "metric")
    assert not marker.exists()


def test_an_experiment_file_may_name_one_of_our_metrics():
    refuse_names(["task.metric=f1", "task.metric=null", "task.metric=relpos.train.metrics.f1"])


def test_a_claim_calls_nothing(marker):
    claim = Claim("C00", "", "", "", test={"rule": "evil.f"})
    with pytest.raises(RelposError, match=r"claim C00: test: unknown rule 'evil\.f'"):
        claim.judgement  # noqa: B018
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("relpos.model.position.base.torch.nn.Module", "position"),
        ("relpos.model.position.Terms", "position"),
        ("relpos.model.position.base.Scheme.count", "position"),
        ("relpos.model.conv.NoConv", "position"),
        ("relpos.model.position.base.nn", "position"),
        ("relpos.data.source.Path", "data"),
        ("relpos.data.source._place", "data"),
        ("relpos.train.loggers.JsonLines", "logger"),
        ("relpos.train.loggers.write_text", "logger"),
        ("relpos.train.metrics._pair", "metric"),
        ("relpos.model.positionevil.X", "position"),
        ("os", "metric"),
        ("", "metric"),
        ("relpos.train.metrics.f1\n", "metric"),
        (3, "metric"),
        (None, "position"),
        ("relpos.model.position.Tisa", "size"),
    ],
)
def test_a_name_of_another_kind_than_its_keys_is_refused(name, kind):
    with pytest.raises(RelposError) as error:
        find(name, kind, "key")
    assert "\n" not in str(error.value)


def test_a_stranger_module_is_imported_when_the_user_names_it(marker):
    trust("evil")
    assert find("evil.X", "position", "position._target_").__name__ == "X"
    assert marker.exists()


def test_a_trusted_class_must_still_be_of_its_kind(marker):
    trust("evil")
    with pytest.raises(RelposError, match=r"evil\.f is not a relpos\.model\.position\.Scheme"):
        find("evil.f", "position", "position._target_")


def test_words_of_the_command_line_are_trusted():
    overrides = ["position._target_=mine.X", "task.metric=scores.f", "seed=1"]
    assert trust_typed([overrides[0], "trust=[other,more]", *overrides[1:]]) == overrides
    assert os.environ["RELPOS_TRUST"] == "mine,other,more,scores"


def test_a_text_with_trust_in_it_is_no_permission():
    trust_typed(["the cat trust=evil [MASK]", "text=[position._target_=evil.X]"])
    assert "RELPOS_TRUST" not in os.environ


def test_trust_wants_the_name_of_a_module(refused):
    assert "trust=../evil: the name of a module is expected" in refused("params", "trust=../evil")


def with_evil(python: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """`relpos params` in a folder with the module `evil`."""
    (folder / "evil.py").write_text(EVIL.format(marker=folder / "marker"))
    arguments = [python, "-m", "relpos.cli", "params", "size=tiny", *more]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "more", [["position._target_=evil.X"], ["--config-dir", "mine", "position=mine"]]
)
def test_a_class_of_the_current_folder_is_found(more, tmp_path, python):
    (tmp_path / "mine" / "position").mkdir(parents=True)
    (tmp_path / "mine" / "position" / "mine.yaml").write_text("_target_: evil.X\n_partial_: true\n")
    done = with_evil(python, tmp_path, *more)
    assert (done.returncode, (tmp_path / "marker").exists()) == (0, True), done.stderr


@pytest.mark.full
def test_a_file_of_the_current_folder_replaces_no_package(tmp_path):
    """The order in which Python looks: the working directory comes last, and only if a module of it
    is asked for."""
    (tmp_path / "yaml.py").write_text("raise SystemExit('shadowed')\n")
    done = with_evil(sys.executable, tmp_path, "position._target_=evil.X")
    assert "shadowed" not in done.stderr
    assert (done.returncode, (tmp_path / "marker").exists()) == (0, True), done.stderr


PLANTED = """
from pathlib import Path

Path({marker!r}).touch()
raise SystemExit("a planted module")
"""
STARTS_PROCESSES = """
import os
from pathlib import Path

import relpos
from relpos.data import encoding
from relpos.launch.engine import run_all
from relpos.launch.engine import Local
from relpos.config.compose import compose
from relpos.runs.plan import plan

tokenizer = Path(os.environ["TOKENIZER"])
from relpos.data.published_tokenizer import load_tokenizer
encoding.ALONE = 0
assert len(list(encoding.encoded(iter(["a dog.", "a cat."]), load_tokenizer(tokenizer), 2))) == 2
tiny = ["size=tiny", "steps=1", "batch=2", "evaluations=1"]
assert not run_all([plan(compose("pretrain", tiny))], Path("."), Local(workers=1))
overrides = [*tiny, "seed=1", "speed.devices=2", "speed.accelerator=cpu"]
assert relpos.run(relpos.compose("pretrain", overrides)).state == "finished"
"""


@pytest.mark.slow
@pytest.mark.full  # real processes, which import torch
def test_a_file_of_the_working_directory_is_no_module_of_the_processes_that_the_package_starts(
    toy_runs, tmp_path, monkeypatch
):
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "mine.py").write_text(STARTS_PROCESSES)
    (tmp_path / "here").mkdir()
    for name in ("relpos", "torch", "numpy", "sitecustomize", "pickle"):
        (tmp_path / "here" / f"{name}.py").write_text(
            PLANTED.format(marker=str(tmp_path / "marker"))
        )
    monkeypatch.setenv("TOKENIZER", str(next((toy_runs / "tokenizer").iterdir())))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    done = subprocess.run(
        [sys.executable, tmp_path / "script" / "mine.py"],
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "flag", ["--experimental-rerun=FILE", "--experimental-rerun", "--experimental=FILE"]
)
def test_a_run_that_hydra_has_pickled_is_not_unpickled(flag, tmp_path, refused, monkeypatch):
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "marker"),)

    (tmp_path / "FILE").write_bytes(pickle.dumps(Evil()))
    monkeypatch.chdir(tmp_path)
    line = refused("params", *([flag, "FILE"] if "=" not in flag else [flag]))
    assert "--experimental-rerun runs what a file says" in line
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(("changes", "word", "override"), [
    ({"base": ["data=hub", "size=tiny"]}, "data=hub", "data=toy"),
    ({"base": ["size=tiny"], "stages": {"pretrain": ["data=hub"]}}, "data=hub", ""),
    ({"base": ["data=toy", "logger=wandb", "logger.entity=stranger"]}, "logger.entity=stranger", "logger.entity=me"),
    ({"base": ["data=toy", "logger=wandb", "logger.mode=online"]}, "logger.mode=online", "logger.mode=offline"),
    ({"base": ["data=toy", "logger=wandb"]}, "logger.mode=auto", "logger=none"),
    ({"base": ["data=toy"], "rows": {"a": ["pretrain.network=stranger/model"]}}, "network=stranger/model", ""),
    ({"base": ["data=toy"], "network": "stranger/model"}, "network: stranger/model", ""),
])  # fmt: skip
def test_an_experiment_file_uses_no_network_unasked(changes, word, override, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection"))
    table = load(str(write_experiment(tmp_path, **changes)))
    with pytest.raises(
        RelposError,
        match=rf"{re.escape(word)}: this file would use the network; type .*or trust=network",
    ):
        plan_table(table)
    if override:
        plan_table(table, overrides=[override])
        trust("network")
        plan_table(table)
