"""Names that users give to networks."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import relpos
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.files import write_json, write_text
from relpos.runs.networks import Network, labels, networks_of, resolve
from relpos.runs.plan import plan
from relpos.runs.run import Record, read_record, runs_root
from relpos.stages.given import given_run

NAME = "fixed-2x64-toy-seed0-0123456789ab"
DIALS = "packing: document\nlength: 16\nprecision: bf16\nseed: 3\n"
FINETUNE = ["task=rte", "intermediate=none", "recipe=finetune_tiny"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a finished pre-training, without weights that could be loaded."""
    run = tmp_path / "runs" / "pretrain" / NAME
    record = {
        "stage": "pretrain",
        "state": "finished",
        "identity": "0123456789ab",
        "inputs": {"store": "a/store"},
    }
    write_json(run / "record.json", record)
    write_text(run / "config.yaml", DIALS)
    for file in ("model/model.safetensors", "snapshots/10.safetensors", "snapshots/50.safetensors"):
        write_text(run / file, file)
    return run


def write_table(*rows: tuple[str, list[Path]], state: str = "finished") -> Path:
    run = {"stage": "pretrain", "identity": "1", "state": state}
    runs = [
        {"name": name, "runs": [run | {"path": str(path)} for path in paths]}
        for name, paths in rows
    ]
    write_json(
        runs_root() / "tables" / "mine" / "table.json",
        {"name": "mine", "question": "?", "rows": runs},
    )
    return runs_root() / "tables" / "mine"


def test_a_runs_folder_says_how_it_was_trained(folder):
    network = resolve(folder)
    assert (network.name, network.run, network.folder, network.path) == (
        NAME,
        folder,
        folder / "model",
        folder / "model",
    )
    assert (network.store, network.packing, network.length, network.precision, network.seed) == (
        runs_root() / "a" / "store",
        "document",
        16,
        "bf16",
        3,
    )


def test_the_model_folder_of_a_run_is_that_run(folder):
    assert resolve(folder / "model") == resolve(folder.resolve())


def test_a_snapshot_belongs_to_its_run(folder):
    network = resolve(folder / "snapshots" / "10.safetensors")
    assert (network.name, network.share, network.run, network.path.name) == (
        f"{NAME} at 10 %",
        10,
        folder,
        "10.safetensors",
    )
    assert resolve(folder).snapshots() == {10: network, 50: resolve(folder).at(50)}


def test_a_row_is_its_first_pre_training_or_all(folder):
    write_table(("fixed", [folder, folder]), ("none", []))
    assert resolve("mine:fixed").run == folder
    assert [(network.row, network.run) for network in networks_of("mine:fixed")] == [
        ("fixed", folder)
    ] * 2


def test_a_tables_folder_stands_for_the_pre_trainings_of_all_rows(folder):
    table = write_table(("fixed", [folder]), ("tisa", [folder]))
    assert [network.row for network in networks_of(table)] == ["fixed", "tisa"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{root}/pretrian/x", "/pretrian/x: no such folder or file"),
        (
            "{root}/pretrain/fixed-2x64-toy-seed0-0123456789",
            f"no such folder or file. Did you mean '{NAME}'?",
        ),
        (
            "{root}/pretrain",
            f"no finished run and no model folder (model.safetensors is missing); it holds {NAME}",
        ),
        (
            "{root}/pretrain/" + NAME + "/snapshots/5.safetensors",
            "no such snapshot. Did you mean '50.safetensors'",
        ),
        ("mine:fixd", "table mine: unknown row 'fixd'. Did you mean 'fixed'?"),
        ("mein:fixed", "no table 'mein' in {root}/tables. Did you mean 'mine'?"),
        ("mine:none", "network=mine:none: no pre-training of this row is finished"),
    ],
)
def test_a_wrong_name_is_answered_by_what_is_there(folder, name, message):
    write_table(("fixed", [folder]), ("none", []))
    root = folder.parent.parent
    with pytest.raises(RelposError) as caught:
        resolve(name.format(root=root))
    assert message.format(root=root) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_runs_without_a_finished_network_are_refused(folder):
    record = read_record(folder)
    write_json(folder / "record.json", record | {"state": "failed"})
    with pytest.raises(
        RelposError, match=r"this pre-training is not finished \(its record says failed\)"
    ):
        resolve(folder)
    write_json(folder / "record.json", record | {"stage": "store"})
    with pytest.raises(RelposError, match="a run of stage store holds no network"):
        resolve(folder)


def trained(name: str, position: str, conv: str = "NoConv", share: int = 100) -> Network:
    nodes = {
        "position": {"_target_": f"relpos.model.position.{position}"},
        "conv": {"_target_": f"relpos.model.conv.{conv}"},
    }
    network = Network(name, Path(name), Path(name), Path(name), Record(meaning=nodes))
    return network if share == 100 else network.at(share)


@pytest.mark.parametrize(
    ("networks", "short"),
    [
        (
            [trained("one", "Tisa"), trained("two", "Rope", "DepthwiseConv")],
            ["tisa", "rope-depthwise_conv"],
        ),
        ([trained("one", "Tisa"), trained("one", "Tisa", share=50)], ["tisa", "tisa at 50 %"]),
        ([trained("one", "Tisa"), trained("two", "Tisa")], ["one", "two"]),
        ([trained("one", "Tisa"), Network("bert", Path("bert"), Path("bert"))], ["tisa", "bert"]),
    ],
)
def test_labels_are_short_where_they_can_be(networks, short):
    assert labels(networks) == short


def test_the_labels_of_a_row_with_several_seeds_name_them(folder):
    write_table(("a", [folder]))
    network = networks_of("mine:a")[0]
    several = [Network(str(seed), folder, folder, row="b", seed=seed) for seed in (0, 1)]
    assert labels([network, *several]) == ["a", "b seed 0", "b seed 1"]


def given(name: Path | str) -> tuple[str, dict[str, Any], str]:
    run = given_run(str(name))
    return run.name, run.meaning, str(run.path)


def test_a_row_and_the_folder_of_its_run_are_the_same_start_of_a_training(folder):
    write_table(("fixed", [folder]))
    expected = (NAME, {"model": "0123456789ab"}, str(folder / "model"))
    assert given(folder) == given("mine:fixed") == expected


def test_the_start_of_a_training_is_identified_by_its_weights_where_no_run_is_named(folder):
    name, meaning, path = given(folder / "model")
    assert (name, path) == ("model", str(folder / "model"))
    assert [file for file, *_ in meaning["model"]] == ["model.safetensors"]
    name, meaning, path = given(folder / "snapshots" / "10.safetensors")
    assert (name, path) == (f"{NAME}-at10", str(folder / "snapshots" / "10.safetensors"))
    assert [file for file, *_ in meaning["model"]] == ["10.safetensors"]


def test_a_row_needs_the_name_of_a_recipe(folder):
    with pytest.raises(
        RelposError,
        match="network=mine:fixed: the recipe must be named, too, as in recipe=finetune_small",
    ):
        compose("finetune", ["network=mine:fixed", "task=rte"])
    write_table(("fixed", [folder]))
    assert plan(compose("finetune", ["network=mine:fixed", *FINETUNE])).inputs["start"].name == NAME


def test_a_snapshot_is_loaded_and_fine_tuned_like_any_network(toy_runs):
    overrides = ["size=tiny", "steps=2", "batch=4", "length=32", "evaluations=1", "snapshots=[50]"]
    trained = relpos.run(compose("pretrain", overrides)).path
    snapshot = trained / "snapshots" / "50.safetensors"
    (model, tokenizer), (end, _) = relpos.load(snapshot), relpos.load(trained)
    assert tokenizer is not None
    assert not torch.equal(*(network.encoder.embedding.words.weight for network in (model, end)))
    run = relpos.run(
        compose("finetune", [f"network={snapshot}", *FINETUNE, "steps=1", "batch=2", "length=32"])
    )
    assert run.state == "finished"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stage": None}, "no run that has begun (record.json is missing or names no stage)"),
        ({"inputs": {}}, "damaged: its record or config.yaml lacks something ('store')"),
        ({"inputs": None}, "damaged: its record or config.yaml lacks something"),
    ],
)
def test_a_record_that_lacks_something_is_one_line(change, message, folder):
    write_json(folder / "record.json", read_record(folder) | change)
    with pytest.raises(RelposError, match=re.escape(f"network={folder}: {message}")):
        resolve(folder)


@pytest.mark.parametrize("longest", ["many", -1, None, [64]])
def test_a_checkpoint_may_say_nothing_sensible_about_its_longest_input(longest, tmp_path):
    write_json(tmp_path / "config.json", {"model_type": "bert", "max_position_embeddings": longest})
    write_text(tmp_path / "model.safetensors", "")
    assert resolve(tmp_path).length == 128
