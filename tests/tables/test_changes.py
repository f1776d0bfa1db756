"""What is typed beside a table's name: the table says so, and takes nothing from the table that is
there."""

import json
from pathlib import Path

import pytest

from relpos.cli import main
from relpos.errors import RelposError
from relpos.runs.table_file import RowRun, table_folder
from relpos.tables.changes import Changes, claim_folder, folder_of, is_changed
from relpos.tables.experiment import Experiment, load
from relpos.tables.plan import plan_table
from relpos.tables.table import Row, Table
from tables.small_data import small, write_experiment

FORMS = ("table.md", "table.html", "table.tex", "table.json")


def printed(folder: Path) -> Path:
    """An experiment with printed numbers, of rows of two sizes on the toy language."""
    (folder / "paper.csv").write_text("row,cola\nlarge,77.7\nsmall,66.6\n")
    rows = {"large": ["size=base", "position=none"], "small": ["size=tiny", "position=none"]}
    changes = {
        "rows": rows,
        "base": ["data=toy"],
        "tasks": ["cola"],
        "stages": {},
        "printed": "paper.csv",
    }
    return write_experiment(folder, **changes)


def shown(file: Path, *typed: str) -> list[str]:
    """The texts of a table of which nothing is run."""
    assert main(["reproduce", f"table={file}", "stages=[]", *typed]) == 0
    return [(table_folder("small") / name).read_text(encoding="utf-8") for name in FORMS]


def test_a_table_says_in_every_form_what_was_typed(tmp_path, capsys):
    texts = shown(
        printed(tmp_path),
        "size=tiny",
        "pretrain.steps=60",
        "seeds=[3,5]",
        "logger=wandb",
        "logger.project=secret",
    )
    assert not any("77.7" in text for text in texts)
    assert all("77.7" in text for text in shown(printed(tmp_path), "speed.threads=1"))
    for text in [*texts, capsys.readouterr().out]:
        plain = text.replace("\\", "")
        assert "seeds=[3,5]" in plain
        assert "size=tiny" in plain
        assert "pretrain.steps=60" in plain
        assert "secret" not in text
    overrides = [row["overrides"] for row in json.loads(texts[-1])["rows"]]
    assert overrides == [["size=tiny", "position=none"], ["size=tiny", "position=none"]]


@pytest.mark.parametrize(
    ("typed", "beside"),
    [
        ([], [True, True]),
        (["speed.threads=1", "seed=4", "size=tiny", "size=base"], [True, False]),
        (["size=tiny"], [False, True]),
        (["finetune.steps=60"], [False, False]),
        (["pretrain.size.dropout=0"], [False, False]),
        (["data=files", "data.root=."], [False, False]),
    ],
)
def test_a_printed_number_stands_beside_rows_of_the_file_alone(typed, beside, tmp_path):
    experiment = load(str(printed(tmp_path)))
    assert [not is_changed(experiment, row, typed) for row in experiment.rows] == beside


def whole(folder: Path) -> tuple[Experiment, dict[str, str]]:
    """An experiment of two rows, with the identities of their runs, whose table is there."""
    experiment = small(folder, base=["data=toy", "size=tiny"], tasks=[], stages={})
    identities = {row.name: row.pretrainings[0].identity for row in plan_table(experiment)}
    runs = {
        row: [RowRun("pretrain", identity, "finished", "")] for row, identity in identities.items()
    }
    Table("small", "?", [Row(row, runs=of_row) for row, of_row in runs.items()]).write(
        table_folder("small")
    )
    return experiment, identities


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (Changes(["none"]), "small-none"),
        (Changes(None, {"pretrain_seeds": [7]}), "small-pretrain_seeds-7"),
        (Changes(["fixed"], {}, ["pretrain.steps=5"]), "small-fixed-pretrain.steps-5"),
    ],
)
def test_a_table_that_leaves_results_out_is_written_beside_the_whole_one(
    changes, name, tmp_path, capsys
):
    experiment, identities = whole(tmp_path)
    selected = {identity for row, identity in identities.items() if row in (changes.rows or ())}
    folder = folder_of(experiment, changes, selected)
    assert folder.name == name
    assert capsys.readouterr().err.endswith(
        f"not asked for here: this table is written to {folder}\n"
    )
    assert folder_of(experiment, changes, selected, folder) == folder
    assert capsys.readouterr().err == ""  # once


def test_a_table_that_leaves_no_results_out_is_written_in_place(tmp_path):
    experiment, identities = whole(tmp_path)
    assert (
        folder_of(
            experiment, Changes(["fixed", "none"], {}, ["speed.threads=1"]), identities.values()
        ).name
        == "small"
    )
    assert folder_of(experiment, Changes(), []).name == "small"  # the file has changed


def test_a_narrower_table_leaves_the_whole_one_as_it_is(tmp_path):
    experiment, _ = whole(tmp_path)
    before = (table_folder("small") / "table.json").read_bytes()
    assert main(["reproduce", f"table={experiment.file}", "stages=[]", "rows=[none]"]) == 0
    assert (table_folder("small") / "table.json").read_bytes() == before
    assert (table_folder("small-none") / "table.md").is_file()


def test_two_files_of_one_name_do_not_share_a_table(tmp_path):
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.append(write_experiment(tmp_path / name, question=name))
    first, second = (load(str(file)) for file in files)
    claim_folder(folder_of(first, Changes(), []), first)
    with pytest.raises(
        RelposError,
        match=rf"^table={files[1]}: .*/small is the table of {files[0]}; .* give it another one$",
    ):
        folder_of(second, Changes(), [])
    files[1].write_bytes(files[0].read_bytes())
    assert folder_of(second, Changes(), []).name == "small"  # a copy
    files[0].rename(tmp_path / "moved.yaml")
    files[1].write_text("question: edited")
    assert folder_of(second, Changes(), []).name == "small"


def test_a_file_of_one_s_own_does_not_take_the_table_of_a_shipped_one(tmp_path):
    shipped = load("demo")
    claim_folder(folder_of(shipped, Changes(), []), shipped)
    write_experiment(tmp_path).rename(tmp_path / "demo.yaml")
    with pytest.raises(RelposError, match="tables/demo is the table of demo; "):
        folder_of(load(str(tmp_path / "demo.yaml")), Changes(), [])


@pytest.mark.parametrize("name", ["...yaml", "..yaml", ".x.yaml", "..", "a/../../b"])
def test_a_name_that_leads_out_of_the_tables_is_refused(name, tmp_path):
    with pytest.raises(RelposError, match="cannot be the name of a table"):
        table_folder(name)
    if name.endswith(".yaml"):
        write_experiment(tmp_path).rename(tmp_path / name)
        with pytest.raises(RelposError, match="cannot be the name of a table"):
            load(f"{tmp_path}/{name}")
