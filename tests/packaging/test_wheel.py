"""The wheel carries all that the command needs, and works in another environment from any folder."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("relpos-*.whl"))


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment that holds the wheel; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    # Only its folders are shared: .pth files in there are not read, so our own editable install stays out of sight.
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "dependencies.pth").write_text("\n".join(paths) + "\n")
    pip(sys.executable, "--python", str(python), "install", "--no-deps", "--no-index", "--quiet", str(wheel))
    return folder / "bin"


def pip(python: str, *arguments: str) -> None:
    done = subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def files(folder: str) -> set[str]:
    """The YAML and CSV files below a folder of the tree."""
    return {path.relative_to(ROOT).as_posix() for suffix in ("yaml", "csv") for path in (ROOT / folder).rglob(f"*.{suffix}")}


def test_wheel_contains_conf_and_experiments_without_results(wheel: Path) -> None:
    folders = ("relpos/conf/", "relpos/experiments/")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(folders) and name.endswith((".yaml", ".csv"))}
    wanted = files("conf") | files("experiments")
    results = files("experiments/results")
    assert results < wanted
    assert inside == {f"relpos/{name}" for name in wanted - results}
    assert not any("/results/" in name for name in zipfile.ZipFile(wheel).namelist())


def test_wheel_contains_every_module_and_what_they_read(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    files = (path for path in (ROOT / "src" / "relpos").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {"relpos/completion.bash", "relpos/tables/render/templates/page.html.j2"} <= wanted
    assert wanted <= inside


def test_wheel_contains_nothing_else_at_its_top(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top.split("-")[0] for top in tops} == {"relpos"}


def test_installed_command_answers_from_an_unrelated_folder(elsewhere: Path, tmp_path: Path) -> None:
    shown = subprocess.run([elsewhere / "relpos", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "pretrain" in shown.stdout
    assert list(tmp_path.iterdir()) == []


def test_installed_command_counts_parameters_from_an_unrelated_folder(elsewhere: Path, tmp_path: Path) -> None:
    arguments = [elsewhere / "relpos", "params", "size=small", "position=composite"]
    shown = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
    counted = json.loads(shown.stdout)
    assert (counted["total"], counted["position"]) == (13_428_196, 13_872)
    assert list(tmp_path.iterdir()) == []


def test_installed_package_is_not_the_tree(elsewhere: Path, tmp_path: Path) -> None:
    arguments = [elsewhere / "python", "-c", "import relpos; print(relpos.__file__)"]
    shown = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not Path(shown.stdout.strip()).is_relative_to(ROOT)
