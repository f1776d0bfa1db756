"""`relpos length`: finished pre-trainings at other lengths."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import relpos
from relpos.config.compose import called
from relpos.data.heldout_windows import MaskedText
from relpos.errors import RelposError
from relpos.measures.kinds.lengths import Lengths, loss_by_length
from relpos.measures.measure import Measured
from schemes import VOCABULARY, model_of

TINY = ["steps=2", "batch=4", "evaluations=1", "data.pairs=64", "packing=document", "length=32"]
TINY += ["size.layers=1", "size.max_positions=32"]


def texts(count: int = 2, tokens: int = 56) -> list[MaskedText]:
    generator = torch.Generator().manual_seed(4)
    drawn = torch.randint(5, VOCABULARY, (2, count, tokens), generator=generator)
    return [MaskedText(ids, labels) for ids, labels in zip(*drawn, strict=True)]


def test_without_neighbours_that_matter_the_length_does_not_matter() -> None:
    """A position scheme that sees nothing but itself, in a network without attention to others."""
    model = model_of("none").eval()
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.attention.output.weight.zero_()
    losses = [row["loss"] for row in loss_by_length(model, texts(), [8, 16, 58], "fp32").values()]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-9)


def test_the_loss_is_that_of_the_model_on_the_window() -> None:
    model, text = model_of("tisa").eval(), texts(1, 30)[0]
    ids = torch.cat((torch.tensor([2]), text.ids, torch.tensor([3])))[None]
    targets = torch.cat((torch.tensor([-100]), text.labels, torch.tensor([-100])))[None]
    expected = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    found = loss_by_length(model, [text], [32], "fp32")[32]
    assert found["loss"] == pytest.approx(float(expected), rel=1e-6)
    assert found["predicted"] == 30


def test_a_scheme_with_a_table_says_so_and_the_others_go_on() -> None:
    lengths = [8, 16, 58]
    table = loss_by_length(model_of("absolute"), texts(), lengths, "fp32")
    assert ["refused" in row for row in table.values()] == [False, False, True]
    assert table[58]["refused"] == "Absolute has 16 positions (size.max_positions); a sequence of 58 tokens is too long"
    assert not any("refused" in row for row in loss_by_length(model_of("tisa"), texts(), lengths, "fp32").values())


def test_curves_end_where_a_scheme_ends() -> None:
    points: dict[str, Any] = {"8": {"loss": 1.0}, "16": {"refused": "too long"}}
    networks = [
        Measured("absolute", {"lengths": points, "trained": 8}),
        Measured("tisa", {"lengths": points | {"16": {"loss": 2.0}}, "trained": 8}),
    ]
    (drawing,) = Lengths().draw(networks)
    lines = {str(line.get_label()): len(line.get_xdata()) for line in drawing.figure.axes[0].lines if line.get_marker() == "."}
    assert lines == {"absolute": 1, "tisa": 2}
    assert [line.get_marker() for line in drawing.figure.axes[0].lines].count("x") == 1


def test_no_length_is_refused() -> None:
    with pytest.raises(RelposError, match="lengths=\\[\\]: at least one"):
        called("length", ["network=nowhere", "lengths=[]"])


def test_the_command_writes_a_table_and_a_figure(toy_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [relpos.run(relpos.compose("pretrain", [*TINY, f"position={name}"])).path for name in ("tisa", "absolute")]
    overrides = [f"network=[{','.join(map(str, runs))}]", "lengths=[16,64]", "tokens=600", "threads=1"]
    folder = Path(called("length", overrides))
    content = json.loads((folder / "length.json").read_text())
    assert [row["name"] for row in content["runs"]] == ["tisa", "absolute"]
    assert [[("loss" in point) for point in row["points"]] for row in content["runs"]] == [[True, True], [True, False]]
    assert len({row["points"][0]["predicted"] for row in content["runs"]}) == 1
    assert (folder / "length.png").read_bytes().startswith(b"\x89PNG")
    assert "absolute, 64 tokens: Absolute has 32 positions" in capsys.readouterr().err
    with pytest.raises(RelposError, match="the longest held-out document has"):
        called("length", [f"network={runs[0]}", "lengths=[100000]"])
