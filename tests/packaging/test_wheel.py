"""What docs/commands.md says of installing: checkout, repository, wheel and extras, each in an
environment of its own.

There is no network: what an environment is to hold is linked from the one that runs the tests,
package by package.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.links import ROOT

pytestmark = pytest.mark.full
OFFLINE = ("--no-deps", "--no-index", "--no-compile", "--quiet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("relpos-*.whl"))


@pytest.fixture(scope="module")
def inside(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment with the wheel, as pip installs it, and what it
    requires without extras."""
    python = environment(tmp_path_factory.mktemp("environment"), None, "relpos")
    pip("--python", str(python), "install", *OFFLINE, str(wheel))
    return python.parent


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, which is compiled once."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def needed(*requirements: str) -> dict[str, Distribution]:
    """The packages that an index would install for these, by name, without relpos itself."""
    waiting, seen, packages = [Requirement(name) for name in requirements], set(), {}
    while waiting:
        wanted = waiting.pop()
        if (key := (wanted.name.lower().replace("_", "-"), *sorted(wanted.extras))) in seen:
            continue
        seen.add(key)
        packages[key[0]] = package = distribution(wanted.name)
        for line in package.requires or ():
            other = Requirement(line)
            if other.marker is None or any(
                other.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            ):
                waiting.append(other)
    packages.pop("relpos", None)
    return packages


def environment(folder: Path, unpacked: Path | None, *requirements: str) -> Path:
    """The interpreter of a fresh environment with what the wheel held, and with what these require
    and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    for package in needed(*requirements).values():
        for file in package.files or ():
            first = Path(str(package.locate_file(file.parts[0])))
            if file.parts[0] in ("..", "__pycache__"):
                continue
            # A folder without __init__.py belongs to several packages.
            shared = (
                first.is_dir()
                and first.suffix != ".dist-info"
                and not (first / "__init__.py").is_file()
            )
            name = Path(*file.parts[: 2 if shared else 1])
            if not (site / name).exists():
                (site / name).parent.mkdir(exist_ok=True)
                (site / name).symlink_to(Path(str(package.locate_file(name))))
    for part in unpacked.iterdir() if unpacked else ():
        (site / part.name).symlink_to(part)
    return python


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def files(folder: str) -> set[str]:
    """The YAML and CSV files below a folder of the tree."""
    return {
        path.relative_to(ROOT).as_posix()
        for suffix in ("yaml", "csv")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    }


def test_wheel_contains_conf_and_experiments_without_results(inside):
    wanted, results = files("conf") | files("experiments"), files("experiments/results")
    assert results < wanted
    folders, kinds = ("relpos/conf/", "relpos/experiments/"), (".yaml", ".csv")
    ours = {name for name in inside if name.startswith(folders) and name.endswith(kinds)}
    assert ours == {f"relpos/{name}" for name in wanted - results}
    assert not any("experiments/results/" in name for name in inside)


def test_wheel_contains_every_module_and_what_they_read(inside):
    files = (
        path
        for path in (ROOT / "src" / "relpos").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert "relpos/tables/render/templates/page.html.j2" in wanted
    assert wanted <= inside


def test_wheel_contains_nothing_else_at_its_top(inside):
    assert {re.split("[/-]", name)[0] for name in inside} == {"relpos"}


def test_installed_command_counts_parameters_from_an_unrelated_folder(elsewhere, tmp_path):
    arguments = [elsewhere / "relpos", "params", "size=small", "position=composite"]
    counted = json.loads(subprocess.check_output(arguments, cwd=tmp_path))
    assert (counted["total"], counted["position"]) == (13_428_196, 13_872)
    assert list(tmp_path.iterdir()) == []


def test_installed_package_is_not_the_tree(elsewhere, tmp_path):
    arguments = [elsewhere / "python", "-c", "import relpos; print(relpos.__file__)"]
    shown = subprocess.check_output(arguments, cwd=tmp_path, text=True)
    assert not Path(shown.strip()).is_relative_to(ROOT)


def done(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What Python of that environment does with these arguments, in an empty folder with runs of its
    own."""
    folder.mkdir(exist_ok=True)
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    runs = {
        "RELPOS_RUNS": str(folder / "runs"),
        "OMP_NUM_THREADS": "1",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }
    command = [str(python), *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=clean | runs
    )


ATTENTION = """
import sys, torch, relpos

q, k, v = torch.randn(3, 1, 2, 5, 4, requires_grad=True).unbind()
bias = torch.zeros(2, 9, requires_grad=True)
relpos.attention(q, k, v, offset=bias).sum().backward()
assert bias.grad.shape == (2, 9)
from relpos.model.position import Tisa
assert not {"pytorch_lightning", "hydra", "datasets", "transformers"} & set(sys.modules)
"""


def test_attention_needs_torch_numpy_and_jaxtyping_alone(unpacked, tmp_path):
    python = environment(tmp_path / "env", unpacked, "torch", "numpy", "jaxtyping")
    ran = done(python, tmp_path / "empty", "-c", ATTENTION)
    assert ran.returncode == 0, ran.stderr


SHORT = ["steps=2", "batch=4", "evaluations=1", "size=tiny"]
LOGGED = """
import wandb
from pathlib import Path
from relpos.when_imported import import_quickly

import_quickly()
from relpos.train.loggers import tensorboard_logger

tensorboard_logger(run={}, folder=Path()).log_metrics({"loss": 1.0}, 1)
"""
JOBLIB = ["params", "-m", "hydra/launcher=joblib"]
EXTRAS = {
    "pretrained": (
        ["-c", "import transformers, relpos.data.published_tokenizer"],
        ["export", "network=RUN", "to=EXPORTED"],
        "pip install transformers",
    ),
    "dashboard": (
        ["-c", "import wandb_workspaces"],
        [
            "-c",
            "from relpos.commands.dashboard import Table, build; build(Table('', '', []), '', '')",
        ],
        "pip install wandb-workspaces",
    ),
    "loggers": (
        ["-c", LOGGED],
        ["pretrain", *SHORT, "seed=1", "logger=wandb"],
        "pip install wandb",
    ),
    "launchers": (
        ["-m", "relpos.cli", *JOBLIB, "hydra.launcher.n_jobs=1", "k=2,3"],
        [*JOBLIB, "k=2,3"],
        "hydra/launcher=joblib is not installed: pip install hydra-joblib-launcher",
    ),
    "gpu": (["-c", "import triton"], ["-c", "import triton"], "No module named 'triton'"),
}
"""Extra -> what works with it, and what is refused without it, in a line that ends so."""
ONE_AFTER_ANOTHER = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from relpos.cli import main
from relpos.when_imported import import_quickly

import_quickly()
run = ""
for words in json.loads(sys.argv[1]):
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            status = exec(words[1]) or 0 if words[0] == "-c" else main([word.replace("RUN", run) for word in words])
        except (Exception, SystemExit) as error:
            status, _ = 1, print(error, file=errors)
    run = run or out.getvalue().splitlines()[-1]
    print(json.dumps([status, "".join(errors.getvalue().splitlines()[-1:])]))
"""
"""Commands in one process: the exit status of each, and the last line of what it says of errors."""


def test_without_extras_all_works_but_what_an_extra_is_for(elsewhere, tmp_path):
    python = elsewhere / "python"
    assert done(python, tmp_path / "empty", "-c", "import pytest").returncode
    works = [["pretrain", *SHORT], ["order", "network=RUN", "measure=[shuffle]", "examples=20"]]
    commands = [*works, *(refused for _, refused, _ in EXTRAS.values())]
    process = done(python, tmp_path / "empty", "-c", ONE_AFTER_ANOTHER, json.dumps(commands))
    assert process.returncode == 0, process.stderr
    answers = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("[")]
    assert [status for status, _ in answers] == [0, 0, *[1] * len(EXTRAS)], answers
    for (_, last), (_, _, end) in zip(answers[2:], EXTRAS.values(), strict=True):
        assert last.endswith(end)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_its_commands_need(extra, unpacked, tmp_path):
    try:
        python = environment(tmp_path / "env", unpacked, f"relpos[{extra}]")
    except ModuleNotFoundError as error:
        pytest.skip(f"this environment lacks {error}")
    ran = done(python, tmp_path / "empty", *EXTRAS[extra][0])
    assert ran.returncode == 0, ran.stderr
