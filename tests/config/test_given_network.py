"""Overrides about a network that comes from a folder are refused, not ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relpos.cli import main
from relpos.errors import RelposError
from relpos.runs import compose
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table


@pytest.mark.parametrize(
    ("command", "start", "override"),
    [
        ("finetune", "from", "position=fixed"),
        ("finetune", "pretrained", "size=small"),
        ("finetune", "from", "conv.width=9"),
        ("finetune", "from", "k=4"),
        ("finetune", "from", "pretrain.steps=9"),
        ("pretrain", "pretrained", "size.layers=3"),
        ("pretrain", "pretrained", "vocabulary=100"),
        ("draw", "from", "position=fixed"),
    ],
)
def test_an_override_about_the_network_beside_a_folder_is_refused_by_name(command: str, start: str, override: str) -> None:
    overrides = ["conv=convbert"] if override.startswith("conv.") else []
    with pytest.raises(RelposError) as caught:
        compose(command, [f"{start}=FOLDER", override, *overrides])
    assert str(caught.value).startswith(f"{override}: the network comes from {start}=FOLDER, where this override changes nothing")


def test_the_override_for_a_size_is_told_where_the_recipe_comes_from() -> None:
    with pytest.raises(RelposError, match=r"changes nothing; recipe=… names the recipe by itself$"):
        compose("finetune", ["from=FOLDER", "size=small"])


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        ("finetune", ["from=FOLDER", "recipe=finetune_small", "task=rte", "change.positions=remove", "change.tisa=3", "length=64"]),
        ("pretrain", ["pretrained=FOLDER", "recipe=small", "steps=5", "recipe.position_lr=3", "data=hub", "packing=document"]),
        ("finetune", ["size=small", "position=fixed", "pretrain.steps=9"]),
    ],
)
def test_other_overrides_are_taken(command: str, overrides: list[str]) -> None:
    assert compose(command, overrides)


BERT = {"model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 50, "max_position_embeddings": 64}


@pytest.mark.parametrize(("hidden", "lr"), [(64, 1e-3), (384, 3e-4), (768, 1e-4)])
def test_the_width_of_the_network_gives_the_recipe(hidden: int, lr: float, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BERT | {"hidden_size": hidden, "intermediate_size": 64}), encoding="utf-8")
    assert compose("finetune", [f"pretrained={tmp_path}", "task=rte"]).recipe.lr == lr
    assert compose("finetune", [f"pretrained={tmp_path}", "task=rte", "recipe=finetune_tiny"]).recipe.lr == 1e-3
    assert compose("pretrain", [f"pretrained={tmp_path}"]).recipe.lr == {64: 2.5e-3, 384: 3e-4, 768: 1e-4}[hidden]


def test_the_command_says_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["finetune", "from=FOLDER", "position=fixed"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said == "relpos: position=fixed: the network comes from from=FOLDER, where this override changes nothing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["order", "run=FOLDER"], "unknown key 'run'. Did you mean 'from'?"),
        (["length", "run=FOLDER"], "unknown key 'run'. Did you mean 'from'?"),
        (["fill", "a [MASK]", "from=FOLDER"], "unknown key 'from'. Did you mean 'run'?"),
        (["export", "pretrained=FOLDER", "to=FOLDER"], "unknown key 'pretrained'. Did you mean 'run'?"),
        (["pretrain", "from=FOLDER"], "unknown key 'from'. Did you mean 'pretrained'?"),
        (["analyze", "toeplitz", "from=FOLDER"], "unknown key 'from'. Did you mean 'run' or 'pretrained'?"),
        (["order", "from=FOLDER", "position=fixed"], "position: the network comes from from=, where this override changes nothing"),
        (
            ["score", "a", "run=FOLDER", "size.layers=3"],
            "size.layers: the network comes from run=, where this override changes nothing",
        ),
    ],
)
def test_commands_that_open_a_network_suggest_the_key_that_they_have_for_its_folder(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"relpos: {message}\n"


def test_rows_of_a_table_that_starts_from_a_network_may_not_name_another(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "model.safetensors").write_bytes(b"x")
    file = tmp_path / "mine.yaml"
    text = f"question: '?'\nstart: {tmp_path / 'host'}\nrows: {{a: [], b: [position=fixed]}}\ntasks: [rte]\n"
    file.write_text(text, encoding="utf-8")
    given = load(str(file))
    with pytest.raises(RelposError, match="row 'b': position=fixed: the network comes from pretrained=host"):
        plan_table(given)
    (row,) = plan_table(given, ["a"])
    assert len(row.tunings) == 1
