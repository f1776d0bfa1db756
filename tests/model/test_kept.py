"""Compiled code is loaded only from where this user alone can have written it, and only whole.
Skipped where there is no compiler.

A planted library has a constructor that writes a file `marker`: it runs as soon as the library is
loaded.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from relpos.model.kernels import kept, library

GXX = shutil.which("g++")
pytestmark = pytest.mark.skipif(GXX is None, reason="needs g++")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Instead of the kernels, which take ten seconds, a compiler makes an empty library; the cache
    is in `tmp_path`."""
    compiler = tmp_path / "quick"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift || exit 0; done\n'
        f'echo built >>"{tmp_path}/count"\n{GXX} -shared -x c++ /dev/null -o "$2"\n'
    )
    compiler.chmod(0o755)
    for name, value in (("RELPOS_COMPILE", "1"), ("CXX", compiler), ("XDG_CACHE_HOME", tmp_path)):
        monkeypatch.setenv(name, str(value))
    _as_in_a_new_process()


def _as_in_a_new_process() -> None:
    library._loaded.clear()
    library._key.cache_clear()


def _loaded(build: bool = True) -> ctypes.CDLL | None:
    _as_in_a_new_process()
    return library.load(build)


def _times_built(tmp_path: Path) -> int:
    count = tmp_path / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


def _kept(tmp_path: Path) -> Path:
    """The library, after a first training."""
    assert _loaded()
    (file,) = (tmp_path / "relpos").glob("*.so")
    return file


def _planted(tmp_path: Path, place: Path) -> None:
    """Puts a library that writes the marker where a training looks for its own, under a name with
    the right checksum."""
    source = f'#include <cstdio>\n__attribute__((constructor)) void f() {{ fclose(fopen("{tmp_path}/marker", "w")); }}'
    evil = tmp_path / "evil.so"
    subprocess.run(
        [str(GXX), "-shared", "-fPIC", "-x", "c++", "-", "-o", str(evil)],
        input=source,
        text=True,
        check=True,
    )
    place.mkdir(exist_ok=True)
    stem = f"cpu-{library._key(str(tmp_path / 'quick'))}"
    evil.rename(place / f"{stem}-{kept._checksum(evil.read_bytes())}.so")


def test_a_library_that_this_user_planted_runs(tmp_path):
    """Else the other tests would show nothing."""
    _planted(tmp_path, tmp_path / "relpos")
    assert _loaded()
    assert (tmp_path / "marker").exists()
    assert _times_built(tmp_path) == 0


@pytest.mark.parametrize("build", [True, False])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, capsys, mode, build):
    _planted(tmp_path, tmp_path / "relpos")
    (tmp_path / "relpos").chmod(mode)
    assert bool(_loaded(build)) is build
    assert not (tmp_path / "marker").exists()
    line = capsys.readouterr().err.splitlines()[0]
    instead = (
        "they are compiled for this process alone" if build else "plain torch computes instead"
    )
    folder = tmp_path / "relpos"
    assert (
        line
        == f"relpos: compiled CPU kernels cannot be kept: {folder} can be written by other users; "
        f"{instead}"
    )
    assert len(list(folder.iterdir())) == 1  # and nothing is written there


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_folder_of_another_user_is_not_used(tmp_path, capsys):
    _planted(tmp_path, tmp_path / "relpos")
    os.chown(tmp_path / "relpos", 12345, 12345)
    assert _loaded()
    assert not (tmp_path / "marker").exists()
    assert (
        "belongs to another user; they are compiled for this process alone"
        in capsys.readouterr().err
    )


def test_a_link_to_a_folder_is_not_used(tmp_path, capsys):
    _planted(tmp_path, tmp_path / "elsewhere")
    (tmp_path / "relpos").symlink_to(tmp_path / "elsewhere")
    assert _loaded()
    assert not (tmp_path / "marker").exists()
    assert f"{tmp_path}/relpos is a link; " in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault", ["a link", "can be written by other users", "belongs to another user", "is no file"]
)
def test_a_file_that_others_may_have_made_is_removed_and_compiled_again(tmp_path, capsys, fault):
    _planted(tmp_path, tmp_path / "relpos")
    (file,) = (tmp_path / "relpos").iterdir()
    if fault == "a link":
        file.rename(tmp_path / "elsewhere.so")
        file.symlink_to(tmp_path / "elsewhere.so")
    elif fault == "is no file":
        file.unlink()
        os.mkfifo(file)
    elif fault == "belongs to another user":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(file, 12345, 12345)
    else:
        file.chmod(0o666)
    assert _loaded()
    assert not (tmp_path / "marker").exists()
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith(f"relpos: {file.name} is removed from the cache, to be made again: ")
    assert line.endswith(fault)
    assert not file.exists()
    assert _loaded()
    assert _times_built(tmp_path) == 1


@pytest.mark.parametrize("size", [0, 100, -1])
def test_a_truncated_file_is_compiled_again(tmp_path, capsys, size):
    file = _kept(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[:size])
    assert _loaded()
    assert (
        "is removed from the cache, to be made again: the file is damaged"
        in capsys.readouterr().err
    )
    assert (file.read_bytes(), _times_built(tmp_path)) == (content, 2)


def test_a_damaged_file_is_not_loaded_where_nothing_is_to_be_compiled(tmp_path):
    file = _kept(tmp_path)
    file.write_bytes(b"")
    assert _loaded(build=False) is None
    assert not file.exists()


def test_folder_and_file_are_for_this_user_alone(tmp_path):
    file = _kept(tmp_path)
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]


def test_a_folder_that_others_could_read_is_kept(tmp_path):
    file = _kept(tmp_path)
    file.parent.chmod(0o755)
    assert _loaded()
    assert _times_built(tmp_path) == 1
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_cannot_be_made_is_told_and_training_compiles(tmp_path, capsys):
    (tmp_path / "relpos").write_text("a file where the folder should be")
    assert _loaded()
    assert "cannot be kept: " in capsys.readouterr().err


def test_the_library_is_built_once_and_only_for_training(tmp_path):
    assert _loaded(build=False) is None
    assert not (tmp_path / "relpos").exists()
    assert library.load(build=True)  # in the same process
    assert _loaded()
    assert _loaded(build=False)
    assert _times_built(tmp_path) == 1
