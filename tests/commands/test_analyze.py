"""`relpos analyze`."""

from pathlib import Path

import pytest
import torch

from relpos.analysis.properties import NAMES
from relpos.cli import main
from relpos.commands.analyze import Properties, samples_of
from relpos.data.store import Store
from relpos.errors import RelposError


def test_a_kind_without_a_network_asks_for_one(capsys):
    assert main(["analyze", "toeplitz"]) == 1
    assert "network=FOLDER must be given" in capsys.readouterr().err


def test_an_unknown_kind_is_one_line_with_the_nearest(capsys):
    assert main(["analyze", "toplitz", "network=x"]) == 1
    assert "Did you mean 'toeplitz'?" in capsys.readouterr().err


def test_a_run_is_analysed_from_its_own_folder(toy_runs, capsys):
    import relpos

    overrides = [
        "size=tiny",
        "size.layers=1",
        "steps=2",
        "batch=4",
        "evaluations=1",
        "data.pairs=64",
        "snapshots=[50]",
    ]
    run = relpos.run(relpos.compose("pretrain", overrides))
    assert (
        main(
            [
                "analyze",
                "toeplitz",
                f"network={run.path}",
                "kind.length=8",
                "kind.random=1",
                "threads=1",
            ]
        )
        == 0
    )
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    assert {f"toeplitz-{run.path.name}.csv", "toeplitz-along-training.png"} <= {
        path.name for path in folder.iterdir()
    }
    young = f"network={run.path}/snapshots/50.safetensors"
    assert main(["analyze", "toeplitz", young, "kind.length=8", "kind.random=1", "threads=1"]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    assert folder.name.startswith(f"toeplitz-{run.path.name}-50-")
    # A snapshot has no course of its own.
    assert {path.stem for path in folder.iterdir()} == {f"toeplitz-{run.path.name}-50"}
    assert main(["analyze", "removal", f"network={run.path}", "kind.functions=[]"]) == 1
    assert "functions=[]: at least one is needed" in capsys.readouterr().err
    (run.path / "own.txt").write_text("the cat sleeps.\n")
    assert main(["analyze", "lengths", f"network={run.path}", f"text={run.path}/own.txt"]) == 1
    assert "own.txt: this is measured on the held-out documents of a run" in capsys.readouterr().err
    assert (
        main(
            [
                "analyze",
                "attention_by_offset",
                f"network={run.path}",
                "kind.texts=4",
                "kind.length=14",
                "threads=1",
            ]
        )
        == 0
    )


def test_a_network_is_analysed_on_texts_as_long_as_those_of_its_training(toy_runs, capsys):
    import relpos

    run = relpos.run(
        relpos.compose(
            "pretrain",
            ["size=tiny", "size.layers=1", "steps=2", "batch=4", "evaluations=1", "data.pairs=64"],
        )
    )
    [sample] = samples_of([str(run.path)], None)
    store = Store(run.inputs["store"].path).examples("train", "pair", 128)
    longest = int(store.lengths(torch.arange(len(store))).max())
    assert longest < 32  # pairs of short sentences
    assert sample.texts(4, 126).shape == (4, longest - 2)
    assert (
        f"texts of {longest - 2} tokens, as long as it has read in training"
        in capsys.readouterr().err
    )
    assert sample.texts(4, 8).shape == (4, 8)
    assert not capsys.readouterr().err


def test_two_networks_of_one_name_are_refused_and_one_that_is_named_twice_counts_once(tmp_path):
    folders = [tmp_path / name / "main" for name in ("a", "b")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "model.safetensors").touch()
    with pytest.raises(RelposError, match="2 different networks are called 'main'"):
        samples_of([str(folder) for folder in folders], None)
    assert len(samples_of([str(folders[0])] * 2, None)) == 1


def test_properties_are_those_that_are_tried_out_beside_those_that_are_printed(monkeypatch):
    monkeypatch.setattr(
        "relpos.claims.exact.methods_of_table_1", lambda: {"tisa": dict.fromkeys(NAMES, "no")}
    )
    [drawing] = Properties(["tisa"]).drawn()
    [row] = drawing.rows
    assert row == {"position": "tisa"} | dict.fromkeys(NAMES, "yes, printed no")
