"""`relpos analyze` of a paper."""

import json
from pathlib import Path

import pytest

import relpos
from linked import TINY
from pretend import METRICS
from relpos.commands import analyze
from relpos.config.compose import called, compose
from relpos.model.architecture import class_of
from relpos.results.scale import scheme
from relpos.runs.plan import plan
from relpos.runs.run import runs_root
from tables.small_data import finish


def test_missing_figures_are_listed_with_commands_that_make_their_networks(refused):
    readme = runs_root() / "analysis/wennberg2021/README.md"
    assert refused("analyze", "wennberg2021") == (
        f"relpos: nothing is drawn: {readme} has the commands that make what its figures need"
    )
    page = readme.read_text()
    assert page.count("Missing") == 5
    assert "relpos pretrain position=tisa" in page


def test_an_unknown_paper_is_refused_with_the_known_ones(refused):
    assert "chang2021" in refused("analyze", "chang2022")


def test_a_figure_is_drawn_from_the_finished_runs_that_it_is_about(toy_runs):
    run = relpos.run(compose("pretrain", [*TINY, "position=composite"])).path
    # no weights
    finish(plan(compose("pretrain", [*TINY, "position=none", "conv=depthwise"])), METRICS)
    folder = Path(called("analyze", ["chang2021", "threads=1"]))
    first, second, third = (folder / "README.md").read_text().split("\n## ")[1:]
    assert "Missing" in first
    files = {f"kernels-{run.name}{suffix}" for suffix in (".csv", ".png", ".pdf")}
    assert {path.name for path in folder.iterdir()} == files | {"README.md"}
    assert all(f"]({name})" in second for name in files)
    assert (folder / f"kernels-{run.name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"![kernels-{run.name}.png](" in second
    assert "Not drawn" in third


@pytest.mark.parametrize(
    ("overrides", "numbers"),
    [
        (["position=composite", "k=4"], ["2"]),
        (["position=composite", "conv=depthwise"], []),
        (["position=none", "conv=depthwise"], ["3"]),
        (["position=none"], []),
    ],
)
def test_a_figure_is_about_a_scheme_whatever_its_dials(overrides, numbers):
    nodes = json.loads(scheme(overrides))
    classes = class_of(nodes["position"]), class_of(nodes["conv"])
    shown = analyze.FIGURES["chang2021"].items()
    assert [number for number, (_, about) in shown if about == classes] == numbers


@pytest.mark.parametrize("override", ["size.attention=causal", "data.shuffle=1"])
def test_a_network_with_other_layers_or_shuffled_text_is_in_no_figure(override, refused):
    finish(plan(compose("pretrain", ["position=absolute", "size=tiny", override])), METRICS)
    refused("analyze", "wennberg2021")
    page = runs_root() / "analysis/wennberg2021/README.md"
    assert page.read_text().count("Missing") == 5
