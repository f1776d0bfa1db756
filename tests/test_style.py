"""A figure is made of what relpos says, whatever lies in the working directory and however a row is
called."""

import pytest

from relpos import style


@pytest.mark.parametrize(
    "name", ["$x", "$x$", r"$\bad{$", r"a $\frac$ b", "a_b^c", "10 $ and 20 $"]
)
def test_a_dollar_in_a_name_is_a_dollar(name, tmp_path):
    figure, axes = style.panel()
    axes.plot([1, 2], [1, 2], label=name)
    axes.set_yticks([1, 2], [name, name])
    axes.set_title(name)
    axes.annotate(name, (1, 1))
    figure.suptitle(name)
    style.legend(figure)
    style.save(figure, tmp_path / "a.png")
    style.save(figure, tmp_path / "a.pdf")
