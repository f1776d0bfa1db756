"""A model folder of a stranger: whatever its files hold, one line names the file that is wrong."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import relpos
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.readers import read_yaml
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.train.weights import opened

DEEP = "[" * 100_000
BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.fixture
def folder(model_folder: Path) -> Path:
    return model_folder


def refused(folder: Path, file: str) -> str:
    with pytest.raises(RelposError) as error:
        relpos.load(folder)
    message = str(error.value)
    assert "\n" not in message
    assert str(folder / file) in message
    return message


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"- size\n", b"3", b"text", b"\x00\x01\xff\xfe", b"\xff" * 100, DEEP.encode(),
     DEEP.replace("[", "{a: ").encode(),
     BOMB.encode(), b"a: " + b"x" * 2_000_000, b"? [a, b]\n: 3\n", b"size: !!python/object/apply:os.mkdir [marker]\n",
     b"- - - - - " * 9999,
    ],
)  # fmt: skip
def test_a_damaged_config_yaml_is_named(content, folder):
    (folder / "config.yaml").write_bytes(content)
    refused(folder, "config.yaml")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(
            ((key,), value)
            for key in ("size", "position", "conv", "vocabulary")
            for value in (None, 5, [], {}, "x", -1, 10**30)
        ),
        *(
            (("size", key), value)
            for key in ("layers", "hidden", "vocabulary", "heads", "max_positions")
            for value in (None, 0, 10**9)
        ),
        (("size", "layers"), 1_001),
        (("size", "layers"), 200),
        (("size", "hidden"), 60_000),
        (("size", "position"), 3),
        (("size", "norm_eps"), "nan"),
        (("position", "k"), 10**9),
        (("position", "k"), "${oc.env:HOME}"),
        (("position", "unknown"), 1),
        (("position", "_target_"), "relpos.model.position.Nothing"),
        (("position", "_target_"), "relpos.model.position.Merge"),
        (("position", "_target_"), ["relpos.model.position.Fixed"]),
        (("position", "_args_"), [1, 2]),
        (("outputs",), 10**9),
        (("outputs",), -1),
        (("head",), {"kind": "none of them"}),
        (("head",), {"activation": "tanhh"}),
        (("head",), 3),
        (("unknown",), 1),
        ((3,), 1),
    ],
)
def test_a_wrong_value_is_named(path, value, folder):
    config = read_yaml(folder / "config.yaml")
    node = config
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    if path == ("position", "_args_"):  # what Hydra would read is no argument here
        relpos.load(folder)
        return
    with pytest.raises(RelposError) as error:
        relpos.load(folder)
    assert str(error.value).startswith(str(folder)), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["size", "position", "conv", "vocabulary"])
def test_a_missing_key_is_named(key, folder):
    config = read_yaml(folder / "config.yaml")
    del config[key]
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert f"{key} is missing" in refused(folder, "config.yaml")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"3",
        b"\xff\xfe",
        DEEP.encode(),
        b'{"model_type": "relpos"}',
        b'{"model_type": 3}',
    ],
)
def test_a_damaged_config_json_is_named(content, folder):
    (folder / "config.yaml").unlink()
    (folder / "config.json").write_bytes(content)
    refused(folder, "config.json")


@pytest.mark.parametrize(
    "change",
    [{"size": {"layers": 3}}, {"architectures": 0.5}, {"architectures": {"a": 1}}, {"head": 3, "architectures": ["RelposModel"]},
     {"architectures": ["RelposForSequenceClassification"], "id2label": 5}],
)  # fmt: skip
def test_a_config_json_is_held_to_the_same_rules(change, folder):
    config = read_yaml(folder / "config.yaml")
    (folder / "config.yaml").unlink()
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "relpos"} | change))
    refused(folder, "config.json")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", {"architectures": 0.5}),
        ("config.json", {"vocab_size": float("inf")}),
        ("model.safetensors.index.json", {"weight_map": {}}),
        ("pytorch_model.bin", {"a": torch.eye(3).to_sparse()}),
        ("pytorch_model.bin", {"a": torch.eye(3, device="meta")}),
    ],
)
def test_what_is_wrong_in_a_published_folder_is_named(file, content, tmp_path):
    config = {"model_type": "bert", "vocab_size": 15}
    (tmp_path / "config.json").write_text(
        json.dumps(config | (content if file == "config.json" else {}))
    )
    if file == "model.safetensors.index.json":
        (tmp_path / file).write_text(json.dumps(content))
    else:
        torch.save({} if file == "config.json" else content, tmp_path / "pytorch_model.bin")
    assert refused(tmp_path, file)


def test_damaged_weights_are_named_and_not_the_configuration(folder):
    os.truncate(folder / "model.safetensors", 100)
    assert refused(folder, "model.safetensors").startswith(
        f"cannot read {folder / 'model.safetensors'}: "
    )
    run = folder.rename(folder.with_name("model")).parent
    snapshot = run / "snapshots" / "50.safetensors"
    snapshot.parent.mkdir()
    snapshot.write_bytes(b"half")
    with pytest.raises(RelposError, match=f"^cannot read {snapshot}: "):
        opened(snapshot)


def test_an_empty_tokenizer_is_named(folder):
    (folder / "tokenizer.model").write_bytes(b"")
    assert "it is empty" in refused(folder, "tokenizer.model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weight: weight.fill_(float("nan")), "has numbers that are not finite"),
        (lambda weight: weight.fill_(float("-inf")), "has numbers that are not finite"),
        (lambda weight: weight.to(torch.int8), "is int8: quantised weights are not supported"),
        (
            lambda weight: weight.to(torch.complex64),
            "is complex64: quantised weights are not supported",
        ),
    ],
)
def test_weights_that_are_not_finite_or_quantised_are_refused(change, message, folder):
    weights = load_file(folder / "model.safetensors")
    name = max(weights)
    save_file(weights | {name: change(weights[name])}, folder / "model.safetensors")
    assert f"weight {name!r} {message}" in refused(folder, "model.safetensors")


def test_names_that_a_wrapper_has_changed_are_explained(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(
        {f"_orig_mod.{name}": value for name, value in weights.items()},
        folder / "model.safetensors",
    )
    assert "all names begin with '_orig_mod.', as torch.compile saves them" in refused(
        folder, "model.safetensors"
    )


def flipped(path: Path) -> None:
    """The file with one other bit in its last bytes."""
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_in_a_finished_run_is_found(toy_runs):
    run = execute(plan(compose("pretrain", ["steps=2", "batch=4", "snapshots=[50]"])))
    for file in ("model/model.safetensors", "snapshots/50.safetensors"):
        name = run.path / file if "snapshots" in file else run.path
        relpos.load(name)
        flipped(run.path / file)
        with pytest.raises(
            RelposError, match=rf"damaged: .*{file} is not what its run has written"
        ):
            relpos.load(name)
        flipped(run.path / file)
        relpos.load(run.path)
    shutil.copytree(run.path / "model", toy_runs / "copied")
    flipped(toy_runs / "copied" / "model.safetensors")
    relpos.load(toy_runs / "copied")  # which no record is about
