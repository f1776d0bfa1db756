"""A figure is made of what relpos says, whatever lies in the working directory and however a row is called."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from relpos import style

DRAW = """
import sys
from pathlib import Path
from relpos import style
figure, axes = style.panel()
axes.plot([1, 2, 3], [2, 1, 3], label="a")
axes.set_title("title")
style.legend(figure)
style.save(figure, Path(sys.argv[1]))
"""


def drawn(folder: Path, settings: str) -> str:
    folder.mkdir()
    if settings:
        (folder / "matplotlibrc").write_text(settings)
    subprocess.run([sys.executable, "-c", DRAW, "figure.png"], cwd=folder, check=True)
    return hashlib.sha256((folder / "figure.png").read_bytes()).hexdigest()


@pytest.mark.full
def test_settings_of_the_working_directory_change_no_figure(tmp_path: Path) -> None:
    settings = "font.size: 30\naxes.facecolor: red\nlines.linewidth: 9\nlegend.framealpha: 0\nsavefig.facecolor: blue\n"
    assert drawn(tmp_path / "with", settings) == drawn(tmp_path / "without", "")


@pytest.mark.parametrize("name", ["$x", "$x$", r"$\bad{$", r"a $\frac$ b", "a_b^c", "10 $ and 20 $"])
def test_a_dollar_in_a_name_is_a_dollar(name: str, tmp_path: Path) -> None:
    figure, axes = style.panel()
    axes.plot([1, 2], [1, 2], label=name)
    axes.set_yticks([1, 2], [name, name])
    axes.set_title(name)
    axes.annotate(name, (1, 1))
    figure.suptitle(name)
    style.legend(figure)
    style.save(figure, tmp_path / "a.png")
    style.save(figure, tmp_path / "a.pdf")
