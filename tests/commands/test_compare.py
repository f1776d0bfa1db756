"""`relpos compare`."""

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import relpos
from linked import TINY, link_runs
from relpos.cli import main
from relpos.files import write_json, write_text
from relpos.runs.plan import plan
from relpos.runs.run import read_record, runs_root
from relpos.runs.table_file import read_table
from relpos.tables.table import Table

SMALL = [*TINY, "steps=4", "evaluations=2"]
RUNS = {
    "none": ["position=none"],
    "composite": ["position=composite"],
    "narrow": ["position=composite", "k=2"],
    "seed": ["position=composite", "seed=1"],
}


def pretend_to_finetune(start: Path, seed: int, score: float) -> None:
    """Leaves what a finished fine-tuning leaves, but for the model."""
    run = plan(relpos.compose("finetune", [f"network={start}", "task=cola", f"seed={seed}"]))
    write_text(run.path / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(asdict(run.config))))
    metrics = {"columns": {"cola": score}, "examples": {"cola": 100}, "majority": {"cola": 0.0}}
    facts = {
        "stage": "finetune",
        "identity": run.identity,
        "meaning": run.meaning,
        "inputs": {"start": str(start / "model")},
    }
    run.update(**facts, state="finished", metrics=metrics)


@pytest.fixture(scope="module")
def root(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """$RELPOS_RUNS with four pre-trainings; two of them are fine-tuned, and two have their shuffle
    gap measured."""
    root = tmp_path_factory.mktemp("runs")
    link_runs(prepared, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELPOS_RUNS", str(root))
        folders = {}
        for name, more in RUNS.items():
            folders[name] = relpos.run(relpos.compose("pretrain", [*SMALL, *more])).path
            (root / name).symlink_to(folders[name])
        for name in ("none", "composite"):
            relpos.order(folders[name], overrides=["measure=shuffle", "examples=16", "threads=1"])
            for seed in (0, 1):
                pretend_to_finetune(folders[name], seed, score=50.0 + 10 * seed)
    return root


@pytest.fixture(autouse=True)
def _here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_RUNS", str(root))


def compared(capsys: pytest.CaptureFixture[str], *names: str | Path) -> tuple[Path, Table]:
    capsys.readouterr()
    assert main(["compare", *map(str, names)]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    return folder, read_table(folder, Table)


def seeds(table: Table) -> dict[str, list[int | None]]:
    """Row → the seeds of its pre-trainings."""
    return {
        row.name: [run.seed for run in row.runs if run.stage == "pretrain"] for row in table.rows
    }


def test_two_runs_become_a_page_a_table_and_a_figure(root, capsys):
    folder, table = compared(capsys, root / "none", root / "composite")
    assert [row.name for row in table.rows] == ["none", "composite"]
    assert table.question == "They differ in: position=none → composite."
    assert table.row("composite").overrides == ["position=composite"]
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    words = ["held-out loss", "shuffle gap", "CoLA", "composite − none", "(one run each)"]
    for name in ("table.html", "table.md"):
        text = (folder / name).read_text()
        assert all(word in text for word in [*words, "held-out documents"])


def test_columns_are_those_that_all_runs_have(root, capsys):
    _, table = compared(capsys, root / "none", root / "composite")
    for row in table.rows:
        assert set(row.columns) == {"shuffle_gap", "cola"}
        assert row.columns["cola"].values == [50.0, 60.0]
        assert len(row.runs) == 3
    assert abs(table.row("none").columns["shuffle_gap"].mean or 0) < 1e-5
    assert table.row("composite").columns["cola"].delta == 0.0
    _, table = compared(capsys, root / "none", root / "narrow")
    assert [row.columns for row in table.rows] == [{}, {}]


def test_runs_of_one_name_are_told_apart_by_what_differs(root, capsys):
    _, table = compared(capsys, *(root / name for name in RUNS))
    assert [row.name for row in table.rows] == ["none", "composite k=8", "composite k=2"]
    assert "position=none → composite → composite, position.k=— → 8 → 2" in table.question
    assert "seed=0 → 0,1 → 0" in table.question


def test_a_pattern_names_runs_and_those_that_differ_in_their_seed_alone_are_one_row(
    root, capsys, refused
):
    links = root / "patterns"
    links.mkdir()
    for number, name in enumerate(("composite", "seed", "none")):
        (links / f"{number}-run").symlink_to((root / name).resolve())
    folder, table = compared(capsys, links / "*-run")
    assert seeds(table) == {"composite": [0, 1], "none": [0]}
    text = (folder / "table.md").read_text()
    assert re.search(r"none − composite −\d\.\d{3} \(no pre-training seeds to compare\)", text)
    assert "these differ in their seed alone" in refused("compare", "patterns/[01]-run")
    assert "no run has a name like this" in refused("compare", "patterns/x-*")


def test_rows_of_tables_are_runs(root, capsys, refused):
    def row(name: str, *folders: str) -> dict[str, object]:
        run = {"stage": "pretrain", "identity": "1", "state": "finished"}
        return {"name": name, "runs": [run | {"path": str(root / folder)} for folder in folders]}

    rows = [row("bag", "none"), row("both", "composite", "seed"), row("nothing")]
    write_json(
        runs_root() / "tables/mine/table.json",
        {"name": "mine", "question": "?", "rows": rows},
    )
    _, table = compared(capsys, "mine:bag", "mine:both")
    assert seeds(table) == {"bag": [0], "both": [0, 1]}
    assert (
        refused("compare", "mine:bag", "mine:nothing")
        == "relpos: network=mine:nothing: no pre-training of this row is finished"
    )


def test_losses_of_different_text_are_not_compared_and_the_table_says_why(root, tmp_path, capsys):
    other = shutil.copytree((root / "narrow").resolve(), tmp_path / "other")
    record = read_record(other)
    record["inputs"]["store"] += "-of-other-text"
    (other / "record.json").write_text(json.dumps(record))
    folder, table = compared(capsys, root / "none", other)
    assert "Their held-out losses are not compared: text differ." in table.question
    assert "nats per token" not in (folder / "table.md").read_text()


def test_runs_that_cannot_be_compared_are_refused_by_name(root, refused):
    finetuned = next((root / "finetune").glob("*/record.json")).parent
    none = str(root / "none")
    for arguments, message in (
        ([none], "two or more are compared"),
        ([none, none], "the same as"),
        (
            [none, str(finetuned)],
            "a fine-tuned classifier predicts no words; name its pre-training, ",
        ),
    ):
        assert message in refused("compare", *arguments)
