"""docs/mechanisms.md says what the code does."""

import json
import re
import shlex

import _preset as described
import generate
import patterns
import pytest

import relpos
from relpos.model.build import without_memory
from schemes import CONVS, FULL, POSITIONS
from tests.packaging.links import ROOT

PAGE = ROOT / "docs" / "mechanisms.md"


PRESETS = [*described.presets("position"), *described.presets("conv")]
EVERY = pytest.mark.parametrize(
    "preset", PRESETS, ids=lambda preset: f"{preset.group}={preset.name}"
)


@pytest.mark.full
def test_the_page_of_mechanisms_is_not_stale():
    page = PAGE.read_text(encoding="utf-8")
    assert page == generate.renewed(page), "make mechanisms"


def test_every_preset_is_on_the_page():
    assert sorted(preset.name for preset in PRESETS if preset.group == "position") == POSITIONS
    assert sorted(preset.name for preset in PRESETS if preset.group == "conv") == CONVS


def test_the_figure_holds_every_scheme_that_adds_something():
    drawn = patterns.patterns(12, "size=tiny")
    assert set(drawn) == set(POSITIONS) - {"none", "window"}


@EVERY
@pytest.mark.parametrize("size", ["tiny", "base"] if FULL else ["tiny"])
def test_the_formula_in_the_docstring_gives_the_parameters(preset, size):
    with without_memory():
        model = described.model(
            preset.group,
            preset.name,
            f"size={size}",
            "vocabulary=30",
            "k=3",
            "kernels=2",
            "size.layers=2",
        )
    shape = model.encoder.shape
    if preset.group == "position":
        counted = sum(p.numel() for p in model.encoder.position.parameters())
        assert model.encoder.position.count(shape) == counted
    else:
        counted = sum(
            p.numel() for layer in model.encoder.layers for p in layer.attention.conv.parameters()
        )
    node = json.loads(
        json.dumps(preset.node).replace('"k": 8', '"k": 3').replace('"kernels": 5', '"kernels": 2')
    )
    parts = described.Preset(preset.group, preset.name, node).parts
    assert sum(described.evaluate(part.formula, shape, part.keys) for part in parts) == counted


@EVERY
def test_the_command_on_the_page_composes(preset):
    _, command, *overrides = shlex.split(preset.command)
    relpos.compose(command, overrides)


@EVERY
def test_a_docstring_gives_an_equation_and_a_source(preset):
    if preset.name != "none":
        assert all(
            re.search(r"[=↦+]", equation) and len(equation) < 150 for equation in preset.equations
        )
        assert re.search(r"\d{4}", preset.source)
        assert "#" not in preset.source  # of the YAML's comments
