"""Overrides about a network that comes from a folder are refused, not ignored."""

import json

import pytest

from relpos.cli import main
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table


@pytest.mark.parametrize(
    ("command", "override"),
    [
        ("finetune", "position=fixed"),
        ("finetune", "conv.width=9"),
        ("finetune", "k=4"),
        ("finetune", "pretrain.steps=9"),
        ("pretrain", "size.layers=3"),
        ("pretrain", "vocabulary=100"),
        ("analyze", "position=fixed"),
    ],
)
def test_an_override_about_the_network_beside_a_folder_is_refused_by_name(command, override):
    overrides = ["conv=convbert"] if override.startswith("conv.") else []
    with pytest.raises(RelposError) as caught:
        compose(command, ["network=FOLDER", override, *overrides])
    assert (
        str(caught.value)
        == f"{override}: the network comes from network=FOLDER, where this override changes nothing"
    )


def test_the_error_for_a_size_names_the_key_of_the_recipe():
    with pytest.raises(RelposError, match=r"changes nothing; recipe=… names the recipe by itself$"):
        compose("finetune", ["network=FOLDER", "size=small"])


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        (
            "finetune",
            "network=FOLDER recipe=finetune_small task=rte change.positions=remove change.tisa=3 length=64",
        ),
        (
            "pretrain",
            "network=FOLDER recipe=small steps=5 recipe.position_lr=3 data=hub packing=document",
        ),
        ("finetune", "size=small position=fixed pretrain.steps=9"),
    ],
)
def test_overrides_with_an_effect_are_accepted(command, overrides):
    assert compose(command, overrides.split())


BERT = {
    "model_type": "bert",
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("hidden", "lr", "pretrain_lr"), [(64, 1e-3, 2.5e-3), (384, 3e-4, 3e-4), (768, 1e-4, 1e-4)]
)
def test_the_width_of_the_network_gives_the_recipe(hidden, lr, pretrain_lr, tmp_path):
    config = BERT | {"hidden_size": hidden, "intermediate_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    network = f"network={tmp_path}"
    tuning = [network, "task=rte"]
    assert compose("finetune", tuning).recipe.lr == lr
    assert compose("finetune", [*tuning, "recipe=finetune_tiny"]).recipe.lr == 1e-3
    assert compose("pretrain", [network]).recipe.lr == pretrain_lr


@pytest.mark.parametrize(
    ("command", "text", "override"),
    [("order", [], "position=fixed"), ("export", ["to=x"], "size.layers=3")],
    ids=("order", "export"),
)
def test_commands_that_open_a_network_have_no_keys_that_describe_one(
    command, text, override, capsys
):
    assert main([command, *text, "network=FOLDER", override]) == 1
    key = override.partition("=")[0]
    assert (
        capsys.readouterr().err
        == f"relpos: {key}: the network comes from network=, where this override changes nothing\n"
    )


def test_rows_of_a_table_that_starts_from_a_network_may_not_name_another(tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "model.safetensors").write_bytes(b"x")
    file = tmp_path / "mine.yaml"
    text = f"question: '?'\nnetwork: {tmp_path / 'host'}\nrows: {{a: [], b: [position=fixed]}}\ntasks: [rte]\n"
    file.write_text(text, encoding="utf-8")
    table = load(str(file))
    with pytest.raises(
        RelposError, match="row 'b': position=fixed: the network comes from network=host"
    ):
        plan_table(table)
    (row,) = plan_table(table, ["a"])
    assert len(row.tunings) == 1
