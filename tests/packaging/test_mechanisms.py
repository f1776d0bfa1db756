"""docs/mechanisms.md says what the code does."""

import json
import re
import shlex
from pathlib import Path

import _preset as described
import generate
import pytest

import relpos
from relpos.cli import main
from relpos.train.network import without_memory
from schemes import CONVS, FULL, POSITIONS
from tests.packaging.links import ROOT

PAGE = ROOT / "docs" / "mechanisms.md"
SMALL = ["steps=2", "batch=4", "evaluations=1", "data.pairs=64", "size.layers=1"]


PRESETS = [*described.presets("position"), *described.presets("conv")]
EVERY = pytest.mark.parametrize(
    "preset", PRESETS, ids=lambda preset: f"{preset.group}={preset.name}"
)


@pytest.mark.full
def test_the_page_of_mechanisms_is_not_stale() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == generate.renewed(page), "make mechanisms"


def test_every_preset_is_on_the_page() -> None:
    assert sorted(preset.name for preset in PRESETS if preset.group == "position") == POSITIONS
    assert sorted(preset.name for preset in PRESETS if preset.group == "conv") == CONVS


@EVERY
@pytest.mark.parametrize("size", ["tiny", "base"] if FULL else ["tiny"])
def test_the_formula_in_the_docstring_gives_the_parameters(
    preset: described.Preset, size: str
) -> None:
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
def test_the_command_on_the_page_composes(preset: described.Preset) -> None:
    _, command, *overrides = shlex.split(preset.command)
    relpos.compose(command, overrides)


@EVERY
def test_a_docstring_gives_an_equation_and_a_source(preset: described.Preset) -> None:
    if preset.name != "none":
        assert all(
            re.search(r"[=↦+]", equation) and len(equation) < 150 for equation in preset.equations
        )
        assert re.search(r"\d{4}", preset.source)
        assert "#" not in preset.source  # of the YAML's comments


def block(language: str, holding: str) -> str:
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return next(text for text in blocks if holding in text)


@pytest.mark.full
def test_the_scheme_of_ones_own_works_as_written(
    toy_runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "my_schemes.py").write_text(block("python", "class Fading"))
    (tmp_path / "mine" / "position").mkdir(parents=True)
    (tmp_path / "mine" / "position" / "fading.yaml").write_text(block("yaml", "my_schemes.Fading"))
    monkeypatch.chdir(tmp_path)
    lines = [
        *block("sh", "position=fading").splitlines(),
        *block("sh", "position=custom").splitlines(),
    ]
    said = []
    for line in lines:
        _, command, *overrides = shlex.split(line)
        assert (
            main([command, *overrides, *(SMALL if command == "pretrain" else ["size=tiny"])]) == 0
        )
        said.append(capsys.readouterr().out.splitlines()[-1])
    assert [line.split()[1] for line in lines] == ["params", "analyze", "pretrain", "pretrain"]
    assert json.loads(said[0])["position"] == 2
    assert all(Path(place).exists() for place in said[1:])
    assert len(set(said)) == 4
