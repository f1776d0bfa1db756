"""Held-out losses by length: measured, drawn, and kept in the folders of runs."""

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import relpos
from linked import pretrained
from relpos.config.compose import called
from relpos.errors import RelposError
from relpos.measures.kinds.lengths import Lengths, Text, loss_by_length
from relpos.measures.measure import Measured
from relpos.measures.measured import measured
from relpos.measures.sample import Sample
from relpos.model.heads import MaskedLM
from relpos.runs.networks import of_run
from relpos.stages.measure import kept
from schemes import VOCABULARY, model_of

TINY = ["steps=2", "batch=4", "evaluations=1", "data.pairs=64", "packing=document", "length=32"]
TINY += ["size.layers=1", "size.max_positions=32"]


def texts(count: int = 2, tokens: int = 56) -> list[Text]:
    generator = torch.Generator().manual_seed(4)
    drawn = torch.randint(5, VOCABULARY, (2, count, tokens), generator=generator)
    return list(zip(*drawn, strict=True))


def by_length(model: MaskedLM) -> list[dict[str, Any]]:
    return [loss_by_length(model, texts(), n, "fp32") for n in (8, 16, 58)]


def test_without_neighbours_that_matter_the_length_does_not_matter():
    """Attention adds nothing in this network: a token sees itself alone."""
    model = model_of("none").eval()
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.attention.output.weight.zero_()
    losses = [scores["loss"] for scores in by_length(model)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-9)


def test_the_loss_is_that_of_the_model_on_the_window():
    model, [(text, labels)] = model_of("tisa").eval(), texts(1, 30)
    logits = model(torch.tensor([[2, *text.tolist(), 3]]))[0, 1:-1]
    expected = torch.nn.functional.cross_entropy(logits, labels)
    scores = loss_by_length(model, [(text, labels)], 32, "fp32")
    assert scores["loss"] == pytest.approx(float(expected), rel=1e-6)
    assert scores["predicted"] == 30


def test_a_table_of_positions_refuses_longer_windows():
    table, tisa = (by_length(model_of(name)) for name in ("absolute", "tisa"))
    assert ["refused" in row for row in table] == [False, False, True]
    message = "Absolute has 16 positions (size.max_positions); a sequence of 58 tokens is too long"
    assert table[2]["refused"] == message
    assert not any("refused" in row for row in tisa)


def test_curves_end_where_a_scheme_ends():
    points: dict[str, Any] = {"8": {"loss": 1.0}, "16": {"refused": "too long"}}
    networks = [
        Measured("absolute", {"lengths": points, "trained": 8}),
        Measured("tisa", {"lengths": points | {"16": {"loss": 2.0}}, "trained": 8}),
    ]
    (drawing,) = Lengths().draw(networks)
    assert [row["refused"] for row in drawing.rows] == ["", "too long", "", ""]
    lines = {
        str(line.get_label()): len(line.get_xdata())
        for line in drawing.figure.axes[0].lines
        if line.get_marker() == "."
    }
    assert lines == {"absolute": 1, "tisa": 2}


def test_the_command_writes_numbers_and_a_figure(toy_runs):
    runs = [
        relpos.run(relpos.compose("pretrain", [*TINY, f"position={name}"])).path
        for name in ("tisa", "absolute")
    ]
    named = [
        "kind=lengths",
        f"network=[{','.join(map(str, runs))}]",
        "kind.amount=600",
        "threads=1",
    ]
    folder = Path(called("analyze", [*named, "kind.lengths=[16,64]"]))
    rows = list(csv.DictReader((folder / "lengths.csv").read_text().splitlines()))
    assert [row["network"] for row in rows] == [run.name for run in runs for _ in range(2)]
    assert [bool(row["loss"]) for row in rows] == [True, True, True, False]
    assert rows[3]["refused"].startswith("Absolute has 32 positions")
    assert rows[0]["predicted"] == rows[2]["predicted"]
    assert (folder / "lengths.png").read_bytes().startswith(b"\x89PNG")
    for lengths, why in (("[]", "at least one"), ("[100000]", "the longest held-out document has")):
        with pytest.raises(RelposError, match=why):
            called("analyze", [*named, f"kind.lengths={lengths}"])


def test_results_are_kept_and_read_without_the_weights(prepared, tmp_path):
    [run] = pretrained(
        prepared, tmp_path, {"absolute": ["position=absolute", "packing=document"]}
    ).values()
    results = measured(Sample(of_run(run)), [Lengths([64, 8])])
    assert ["loss" in results["lengths"][length] for length in ("8", "64")] == [True, False]
    (entry,) = kept(run, "lengths")
    assert entry.meaning["lengths"] == [8, 64]
    shutil.rmtree(run / "model")
    assert measured(Sample(of_run(run)), [Lengths([8, 64])]) == results
