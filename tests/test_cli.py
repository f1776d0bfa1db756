"""The front door, as a person meets it."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from relpos.cli import main
from relpos.config.conf import commands
from tables.small_data import write_experiment


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


Relpos = Callable[..., Done]
FULL_DISK = "relpos: cannot write standard output or a file"


@pytest.fixture
def relpos(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Relpos:
    """`relpos ARGUMENTS…` in this process."""

    def run(*arguments: str, cwd: Path | None = None) -> Done:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        capfd.readouterr()
        status = main(arguments)
        return Done(status, *capfd.readouterr())

    return run


def test_params_prints_json_and_the_exact_total(relpos):
    done = relpos("params", "size=small", "position=composite")
    assert done.returncode == 0
    content = json.loads(done.stdout)
    assert (content["total"], content["position"]) == (13_428_196, 13_872)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pretran", "relpos: unknown command 'pretran'. Did you mean 'pretrain'?"),
        ("params --multirn k=2,3", "relpos: unknown flag '--multirn'. Did you mean '--multirun'?"),
        ("pretrain --lr=3", "relpos: --lr: keys have no dashes before them; write lr=3"),
        ("pretrain gpus=2", "relpos: unknown key 'gpus'. Did you mean 'speed.devices'?"),
        ("pretrain model=mini", "relpos: unknown key 'model'. Did you mean 'size'?"),
        ("params --cfg", "relpos: argument --cfg/-c: expected one argument"),
        ("pretrain --steps 20", "relpos: --steps: keys have no dashes before them; write steps=20"),
        (
            "pretrain --learning_rate 1e-3",
            "keys have no dashes before them; write learning_rate=1e-3",
        ),
        (
            "pretrain --position=composite",
            "relpos: --position: keys have no dashes before them; write position=composite",
        ),
        ("pretrain --recipe.lr steps=5", "write recipe.lr=VALUE"),
        ("reproduce table=demo --dry-run", "write dry_run=VALUE"),
        (
            "pretrain learning_rate=1e-3",
            "relpos: unknown key 'learning_rate'. Did you mean 'recipe.lr'?",
        ),
        ("help pretran", "relpos: unknown command 'pretran'. Did you mean 'pretrain'?"),
        ("reproduce", "relpos: table must be given, as in: relpos reproduce table=demo"),
        ("compare", "relpos: network must be given, as in: relpos compare FOLDER FOLDER"),
        (
            "reproduce demo",
            "relpos: demo: overrides have the form KEY=VALUE. Did you mean table=demo?",
        ),
        (
            "reproduce table=demo rows=[] dry_run=true",
            "relpos: table demo: rows=[]: no row. Known: absolute,",
        ),
        (
            "pretrain position=compsite",
            "relpos: unknown position 'compsite'. Did you mean 'composite' or 'composite_key'",
        ),
        ("pretrain data=files data.root=/nowhere", "there is no folder or file /nowhere/corpus"),
        ("finetune data=files data.corpus=pyproject.toml data.glue=/nowhere", "data."),
        ("pretrain data=files data.corpus={folder}/memory.txt", "memory.txt: Input/output error"),
        ("reproduce table={folder}/deep.yaml", "deep.yaml:1: not YAML: nested more than 50 deep"),
        ("params hydra.run.dir=/proc/nope", "/proc/nope: No such file or directory"),
        (["compare", "a \udcff b", "network={folder}"], "'a \\udcff b': UTF-8 is expected"),
        ("order network={long}", "File name too long"),
        (
            "pretrain data.corpus=x",
            "data.corpus: a key of data=files, which must be chosen beside it",
        ),
        (
            "pretrain -m hydra/sweeper=ax",
            "hydra/sweeper=ax is not installed: pip install hydra-ax-sweeper",
        ),
        ("finetune task={folder}/mood", "Did you mean task={folder}/mood/task.yaml?"),
        ("pretrain +logger.key=[SECRET", "+logger.key=…: the value cannot be read."),
        ("pretrain --logger.key=SECRET", "write logger.key=…"),
        ("pretrain --logger.key SECRET", "write logger.key=…"),
        ("pretrain logger={{_target_:x,key:SECRET}}", "logger=…: the name of an option is"),
    ],
)
def test_a_mistake_is_one_line_and_status_one(relpos, command, message, tmp_path):
    arguments = command.split() if isinstance(command, str) else command
    (tmp_path / "memory.txt").symlink_to("/proc/self/mem")
    (tmp_path / "deep.yaml").write_text("[" * 50_000 + "]" * 50_000)
    (tmp_path / "mood").mkdir()
    (tmp_path / "mood" / "task.yaml").touch()
    done = relpos(
        *(word.format(folder=tmp_path, long="a" * 300) for word in arguments), cwd=tmp_path
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert message.format(folder=tmp_path) in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.glob("runs/*/*"))  # nothing half-written


def test_an_error_of_all_runs_of_a_sweep_is_one_line(relpos, tmp_path):
    stderr = relpos("pretrain", "-m", "seed=1,2", "metric=nonsense", cwd=tmp_path).stderr
    assert [line.partition(". Known")[0] for line in stderr.splitlines()] == [
        "relpos: metric=nonsense: the run has no figure 'nonsense'"
    ]


def test_help_shows_the_groups_and_what_each_dial_does(relpos):
    text = relpos("pretrain", "size=small", "--help").stdout
    assert re.search(r"position=absolute +absolute, ", text)
    assert re.search(r"steps: \$\{recipe.steps\} +# updates", text)
    # the phrase stands in size/tiny.yaml
    assert re.search(r"hidden: 256 +# width of the residual stream", text)


@pytest.mark.parametrize("command", commands())
def test_help_explains_every_dial_of_the_command_itself(relpos, command):
    text = relpos(command, "--help").stdout
    dials = text.partition("Dials and their values:\n\n")[2].split("\n\n")[0].splitlines()
    groups = "position objective conv data task logger size recipe speed engine trainer pretrain pairs kind"
    scores = "cola mnli_m mnli_mm mrpc qnli qqp rte sst2 stsb wnli ax"
    explained = {*groups.split(), *scores.split()}
    assert dials
    assert [
        line
        for line in dials
        if line[0] != " " and "#" not in line and line.split(":")[0] not in explained
    ] == []


def test_equal_runs_of_a_sweep_are_done_once_and_the_folder_is_the_last_line(
    relpos, toy_runs, tmp_path
):
    command = "pretrain -m position=none kernels=1,3 steps=2 batch=4 evaluations=1"
    done = relpos(*command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [folder] = (toy_runs / "pretrain").iterdir()
    assert done.stdout.splitlines()[-1] == str(folder)
    # the command leaves nothing in the working directory
    assert list(tmp_path.iterdir()) == [toy_runs]


MORE_THAN_A_BUFFER = ["finetune", "--help"]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], pytest.param(["params", "size=tiny"], marks=pytest.mark.full), MORE_THAN_A_BUFFER],
)
def test_a_reader_that_goes_away_ends_the_command_quietly(arguments, python):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [python, "-m", "relpos.cli", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("command", "stderr"),
    [
        *(
            (f"{command} >/dev/full", f"{FULL_DISK}: No space left on device\n")
            for command in ("params size=tiny", "--help")
        ),
        ("params size=tiny 2>&-", ""),
    ],
)
def test_a_full_device_at_stdout_is_one_line_and_stderr_may_be_closed(command, stderr, python):
    shell = ["sh", "-c", f"exec {python} -m relpos.cli {command}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (bool(stderr), stderr)


def test_closed_output_is_refused_before_any_work(relpos, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    done = relpos("params", "size=tiny")
    message = "relpos: standard output is closed; >/dev/null drops what is printed\n"
    assert (done.returncode, done.stderr) == (1, message)


def raising(error: Exception) -> Callable[..., str]:
    """A command that fails."""

    def command(**config: object) -> str:
        raise error

    return command


NO_MEMORY = "relpos: there is not enough memory"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), NO_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), NO_MEMORY),
        (ImportError("libx.so: failed to map segment"), NO_MEMORY),
        (RuntimeError("could not create a primitive"), NO_MEMORY),
        (OSError(errno.ENOSPC, "full"), f"{FULL_DISK}: full"),
        (OSError(errno.EFBIG, "too large"), f"{FULL_DISK}: too large"),
    ],
)
def test_too_little_memory_and_a_full_stream_are_one_line(relpos, monkeypatch, error, message):
    monkeypatch.setattr("relpos.commands.params.params", raising(error))
    done = relpos("params", "size=tiny")
    assert (done.returncode, done.stderr) == (1, f"{message}\n")


def test_a_working_directory_that_is_gone_is_one_line(relpos, tmp_path):
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = relpos("status")
    assert (done.returncode, done.stderr) == (1, "relpos: the working directory is gone\n")


@pytest.mark.skipif(
    not Path("/proc/self").is_dir(), reason="needs a folder that even root cannot write"
)
def test_nothing_is_written_into_the_working_directory(relpos):
    assert relpos("params", "size=tiny", cwd=Path("/proc/self")).returncode == 0
    assert relpos("reproduce", "table=demo", "dry_run=true", cwd=Path("/proc/self")).returncode == 0


def test_a_pipe_of_our_own_that_breaks_is_not_taken_for_stdout(monkeypatch):
    """The command must not end quietly where one of its processes has died."""
    monkeypatch.setattr("relpos.commands.params.params", raising(BrokenPipeError()))
    with pytest.raises(BrokenPipeError):
        main(["params", "size=tiny"])


def option_file(folder: Path, target: str) -> None:
    (folder / "position").mkdir()
    content = f"_partial_: true\n_target_: {target}\n"
    (folder / "position" / "mine.yaml").write_text(content)


def test_a_command_takes_an_option_file_of_the_users_own(relpos, tmp_path):
    option_file(tmp_path, "relpos.model.position.Composite\nk: 3")
    done = relpos(
        "params", "position=mine", "--config-dir", str(tmp_path), "+position.scaled=false"
    )
    assert json.loads(done.stdout)["position"] == 12 * (4 + 64) * 7


def test_rows_of_a_table_may_have_options_of_the_users_own(relpos, tmp_path):
    option_file(tmp_path, "own_module.Mine")
    (tmp_path / "own_module.py").write_text(
        "from relpos.model.position import Composite as Base\n\n\nclass Mine(Base): ...\n"
    )
    table = write_experiment(
        tmp_path,
        stages={"pretrain": []},
        base=["size=tiny"],
        rows={"a": ["position=mine"]},
        tasks=[],
        seeds=[0],
    )
    command = ["reproduce", f"table={table}", "dry_run=true"]
    done = relpos(*command, "--config-dir", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "unknown position 'mine'" in relpos(*command, cwd=tmp_path).stderr


@pytest.mark.full  # torch is imported in every process
@pytest.mark.parametrize(
    ("launcher", "schemes"), [("joblib", "none,tisa"), ("submitit_local", "tisa")]
)
def test_a_sweep_goes_through_the_launchers_of_hydra(launcher, schemes, relpos, toy_runs, tmp_path):
    pytest.importorskip(
        f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher",
        reason="pip install hydra-joblib-launcher hydra-submitit-launcher",
    )
    short = ["steps=2", "batch=4", "evaluations=1", "speed.threads=1", f"hydra/launcher={launcher}"]
    sweep = ["pretrain", "-m", *short]
    command = [sys.executable, "-m", "relpos.cli", *sweep, f"position={schemes}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in (toy_runs / "pretrain").glob("*/record.json")
    ]
    assert [(record["state"], len(record["starts"])) for record in records] == [
        ("finished", 1)
    ] * len(schemes.split(","))
    wrong = relpos(*sweep, "position=none,tsa", cwd=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.splitlines()[-1].startswith("relpos: unknown position 'tsa")
