"""`relpos analyze`."""

from pathlib import Path

import pytest
import torch

import relpos
from linked import TINY
from relpos.analysis.properties import NAMES
from relpos.commands.analyze import Properties, samples_of
from relpos.config.compose import called
from relpos.data.store import Store
from relpos.errors import RelposError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["toeplitz"], "network=FOLDER must be given"),
        (["toplitz", "network=x"], "Did you mean 'toeplitz'?"),
    ],
)
def test_a_kind_without_a_network_asks_for_one_and_an_unknown_one_names_the_nearest(
    words, message, refused
):
    assert message in refused("analyze", *words)


def test_a_run_is_analysed_from_its_own_folder(toy_runs, refused):
    path = relpos.run(relpos.compose("pretrain", [*TINY, "snapshots=[50]"])).path
    network, small = f"network={path}", ["kind.length=8", "kind.random=1", "threads=1"]
    folder = Path(called("analyze", ["toeplitz", network, *small]))
    assert {f"toeplitz-{path.name}.csv", "toeplitz-along-training.png"} <= {
        file.name for file in folder.iterdir()
    }
    young = f"{network}/snapshots/50.safetensors"
    folder = Path(called("analyze", ["toeplitz", young, *small]))
    assert folder.name.startswith(f"toeplitz-{path.name}-50-")
    # A snapshot has no course of its own.
    assert {file.stem for file in folder.iterdir()} == {f"toeplitz-{path.name}-50"}
    assert "functions=[]: at least one is needed" in refused(
        "analyze", "removal", network, "kind.functions=[]"
    )
    (path / "own.txt").write_text("the cat sleeps.\n")
    assert "own.txt: this is measured on the held-out documents of a run" in refused(
        "analyze", "lengths", network, f"text={path}/own.txt"
    )
    short = ["kind.texts=4", "kind.length=14", "threads=1"]
    called("analyze", ["attention_by_offset", network, *short])


def test_a_network_is_analysed_on_texts_as_long_as_those_of_its_training(toy_runs, capsys):
    run = relpos.run(relpos.compose("pretrain", TINY))
    [sample] = samples_of([str(run.path)], None)
    store = Store(run.inputs["store"].path).examples("train", "pair", 32)
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


def test_properties_that_were_tried_out_stand_beside_printed_ones(monkeypatch):
    monkeypatch.setattr(
        "relpos.claims.exact.methods_of_table_1", lambda: {"tisa": dict.fromkeys(NAMES, "no")}
    )
    [drawing] = Properties(["tisa"]).drawn()
    [row] = drawing.rows
    assert row == {"position": "tisa"} | dict.fromkeys(NAMES, "yes, printed no")
