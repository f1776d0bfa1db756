"""`relpos analyze patterns`."""

from pathlib import Path

import pytest

import relpos
from linked import TINY
from relpos.config.compose import called
from relpos.errors import RelposError

SMALL = ["patterns", "size=tiny", "kind.length=12"]


def test_presets_are_told_apart_by_the_name_of_the_figure():
    paths = [called("analyze", [*SMALL, f"position={name}"]) for name in ("tupe", "tupe_r")]
    paths.append(called("analyze", [*SMALL, "position=tupe", "kind.length=8"]))
    assert len(set(paths)) == 3
    pictures = [next(Path(path).glob("pattern-tupe-layer1.png")) for path in paths]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_a_trained_run_is_drawn_with_its_own_weights(toy_runs):
    run = relpos.run(relpos.compose("pretrain", [*TINY, "position=fixed"]))
    path = called("analyze", ["patterns", "kind.length=12", f"network={run.path}"])
    assert (Path(path) / f"pattern-{run.path.name}-layer1.png").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["position=none"], "NoPosition adds nothing to the scores"),
        (["position=tisa", "kind.layer=3"], "layer=3: there are 2"),
        (
            ["position=tisa", "kind.layer=0"],
            "kind.layer=0: a whole number of 1 or more is expected",
        ),
    ],
)
def test_a_pattern_that_cannot_be_drawn_is_one_line(overrides, message):
    with pytest.raises(RelposError, match=message):
        called("analyze", [*SMALL, *overrides])


def test_a_folder_without_a_model_is_one_line():
    with pytest.raises(RelposError, match="network=/nowhere: no such folder or file"):
        called("analyze", ["patterns", "network=/nowhere"])
