"""A measure is one file: it is found, its results are kept, and tables have its columns."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

import relpos
from linked import TINY, pretrained
from relpos.cli import main
from relpos.measures import kinds
from relpos.measures.measure import chosen, measures
from relpos.measures.measured import seen
from relpos.measures.sample import Sample
from relpos.runs.networks import resolve
from relpos.runs.table_file import read_table
from relpos.stages.measure import kept
from relpos.tables.table import Table

WIDTH = '''
from relpos.measures.measure import Figure, MeasuredColumn, Measure


class Width(Measure):
    """Numbers in a hidden state."""

    columns = (MeasuredColumn("width", "width of the network", "accuracy"),)
    note = "Width: numbers in a hidden state."

    def measure(self, sample):
        return {"width": sample.model.encoder.shape.hidden}

    def figure(self, column, results):
        return Figure(results["width"]) if "width" in results else None
'''
"""A measure of the user's own."""


@pytest.fixture
def width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more file among the measures."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "width.py").write_text(WIDTH, encoding="utf-8")
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path / "more")])
    yield
    sys.modules.pop(f"{kinds.__name__}.width", None)


@pytest.fixture(scope="module")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with one pre-training of two steps, with a snapshot."""
    root = tmp_path_factory.mktemp("runs")
    pretrained(prepared, root, {"none": ["position=none", "snapshots=[50]"]})
    return root


def pretraining(root: Path) -> Path:
    (folder,) = (path for path in (root / "pretrain").iterdir() if path.name.startswith("none"))
    return folder


@pytest.mark.usefixtures("width")
def test_a_new_file_is_a_measure_of_relpos_order_and_a_column_of_tables(
    trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RELPOS_RUNS", str(trained))
    run = pretraining(trained)
    assert main(["order", f"network={run}", "measure=[width]"]) == 0
    assert "none: width of the network 64" in capsys.readouterr().err
    assert [entry.results for entry in kept(run, "width")] == [{"width": 64}]
    stages = {"pretrain": [*TINY, "snapshots=[50]"]}
    content = {
        "question": "how wide?",
        "rows": {"none": ["position=none"]},
        "stages": stages,
        "tasks": [],
        "order": ["width"],
    }
    (tmp_path / "wide.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert main(["reproduce", f"table={tmp_path / 'wide.yaml'}", "engine=debug"]) == 0
    assert read_table(trained / "tables" / "wide", Table).row("none").columns["width"].values == [
        64
    ]
    written = (trained / "tables" / "wide" / "table.md").read_text(encoding="utf-8")
    assert "| width of the network |" in written
    assert "Width: numbers in a hidden state." in (
        trained / "tables" / "wide" / "table.html"
    ).read_text(encoding="utf-8")


def test_the_measures_are_the_files_of_the_folder_in_their_order():
    names = [measure.name for measure in measures()]
    assert names[:4] == ["shuffle", "mirror", "pairs", "attention"]
    assert sorted(names) == sorted(path.stem for path in Path(kinds.__path__[0]).glob("[!_]*.py"))


@pytest.mark.parametrize("name", ["shuffle", "mirror", "masking"])
def test_a_column_is_the_mean_of_its_parts_which_are_kept_and_not_shown(
    name, trained, tmp_path, monkeypatch
):
    monkeypatch.setenv("RELPOS_RUNS", str(trained))
    run, [measure] = shutil.copytree(pretraining(trained), tmp_path / "run"), chosen([name])
    shown = relpos.order(run, overrides=[f"measure={name}", "examples=20", "threads=1"])
    [entry] = kept(run, name)
    assert set(measure.details) <= set(entry.results)
    assert not set(measure.details) & set(shown)
    for column in measure.columns:
        figure = measure.figure(column.name, entry.results)
        assert figure is not None
        assert figure.parts is not None
        assert figure.value == pytest.approx(np.divide(*figure.parts.sum(1)), abs=1e-4)
        assert (figure.interval is None) == ("loss" in column.name)
        assert figure.documents is not None
        assert len(figure.documents) == figure.examples
        assert measure.figure(column.name, {}) is None


def test_the_course_shows_kept_results_of_snapshots_without_weights(trained, monkeypatch, tmp_path):
    overrides = ["measure=pairs", "pairs.limit=2", "curves=true"]
    monkeypatch.setenv("RELPOS_RUNS", str(trained))
    before = relpos.order(pretraining(trained), overrides=overrides)["snapshots"]
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "merged"))
    shutil.copytree(trained, tmp_path / "merged", ignore=shutil.ignore_patterns("*.safetensors"))
    merged = pretraining(tmp_path / "merged")
    assert not list(merged.rglob("*.safetensors"))
    assert relpos.order(merged, overrides=overrides)["snapshots"] == before
    assert list(before) == ["50"]


def test_a_snapshot_without_weights_is_left_out_where_nothing_of_it_is_kept(
    trained, monkeypatch, tmp_path
):
    monkeypatch.setenv("RELPOS_RUNS", str(trained))
    run = shutil.copytree(pretraining(trained), tmp_path / pretraining(trained).name)
    (run / "snapshots" / "50.safetensors").unlink()
    assert (
        relpos.order(
            run, overrides=["measure=pairs", "pairs.limit=1", "pairs.others=0", "curves=true"]
        )["snapshots"]
        == {}
    )


def test_a_snapshot_has_no_course_and_none_of_the_last_losses(trained, monkeypatch, tmp_path):
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    run, [measure] = pretraining(trained), chosen(["attention"])
    monkeypatch.setattr(type(measure), "measure", lambda *_: {"attention": {}})
    monkeypatch.setattr(type(measure), "is_kept", False)
    end, snapshot = (
        seen(Sample(resolve(path)), [measure], course=True)
        for path in (run, run / "snapshots" / "50.safetensors")
    )
    assert ("heldout_loss" in end.scores, list(end.course)) == (True, [50])
    assert (snapshot.scores, snapshot.course) == ({}, {})
