"""A bad checkpoint is refused in one line that names what is wrong, and nothing in it is
executed."""

import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import relpos
from hosts import DEBERTA, host, saved
from relpos.errors import RelposError

STORED, INDEX = "model.safetensors", "model.safetensors.index.json"
FIRST, SHARD = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good BERT."""
    return saved(host("BertForMaskedLM"), tmp_path / "bert")


def refused(folder: str | Path) -> str:
    """The message, which is one line."""
    with pytest.raises(RelposError) as caught:
        relpos.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def changed(folder: Path, **config: Any) -> Path:
    """The folder with other values in its config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


def rewritten(folder: Path, tensors: dict[str, torch.Tensor | None]) -> Path:
    """The folder with other weights; None takes one away."""
    return stored(folder, load_file(folder / STORED) | tensors)


def stored(folder: Path, weights: dict[str, Any], file: str = STORED) -> Path:
    """The folder with these weights in a file."""
    tensors = {name: value.clone() for name, value in weights.items() if value is not None}
    save_file(tensors, folder / file)
    return folder


def renamed(folder: Path, new: Callable[[str], str]) -> Path:
    """The folder with other names of its weights."""
    return stored(folder, {new(name): value for name, value in load_file(folder / STORED).items()})


def sharded(folder: Path) -> Path:
    """The folder with its weights in two files and an index."""
    weights = load_file(folder / STORED)
    names = sorted(weights)
    shards = dict.fromkeys(names[:9], FIRST) | dict.fromkeys(names[9:], SHARD)
    for shard in (FIRST, SHARD):
        stored(folder, {name: weights[name] for name in names if shards[name] == shard}, shard)
    indexed(folder, json.dumps({"metadata": {}, "weight_map": shards}))
    return folder


def foreign(folder: Path) -> None:
    """One shard in the place of the other."""
    (sharded(folder) / FIRST).write_bytes((folder / SHARD).read_bytes())


def replaced(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def indexed(folder: Path, index: str) -> None:
    """An index in the place of the weights."""
    (folder / STORED).unlink()
    (folder / INDEX).write_text(index)


def unpickled(folder: Path, content: str) -> None:
    """A text in the place of the weights."""
    (folder / STORED).rename(folder / "pytorch_model.bin").write_text(content)


KEY, NORM = "bert.encoder.layer.1.attention.self.key.bias", "bert.embeddings.LayerNorm.bias"
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (
        lambda to: (to / "config.json").unlink(),
        "or the config.json of a published checkpoint",
    ),
    "a damaged config": (
        lambda to: (to / "config.json").write_text('{"model_type": "bert"'),
        "config.json: damaged",
    ),
    "an unsupported family, for which no other one is suggested": (
        lambda to: changed(to, model_type="flaubert"),
        "config.json: model_type=flaubert is not supported; these are: albert, bert, camembert, ",
    ),
    "a missing weight": (lambda to: rewritten(to, {KEY: None}), f"weight {KEY!r} is missing"),
    "a part of a head": (
        lambda to: rewritten(to, {"cls.predictions.bias": None}),
        "weight 'cls.predictions.bias' is missing",
    ),
    "an unknown weight": (
        lambda to: rewritten(to, {"bert.encoder.gate": torch.ones(2)}),
        "weight 'bert.encoder.gate' is unknown to bert",
    ),
    "a weight of another shape": (
        lambda to: changed(to, vocab_size=41),
        "weight 'bert.embeddings.word_embeddings.weight' has shape (40, 16); by config.json it is "
        "(41, 16)",
    ),
    **{
        f"weights with {fault}": (
            partial(rewritten, tensors={NORM: torch.full((16,), value, dtype=dtype)}),
            f"weight {NORM!r} {fault}",
        )
        for value, dtype, fault in (
            (1, torch.int8, "is int8"),
            (1, torch.complex64, "is complex64"),
            (torch.nan, torch.float32, "has numbers that are not finite"),
            (torch.inf, torch.float64, "has numbers that are not finite:"),
        )
    },
    **{
        f"names that begin with {before}": (
            partial(renamed, new=before.__add__),
            f"all names begin with {before!r}, as ",
        )
        for before in ("module.", "_orig_mod.", "model.")
    },
    "truncated weights": (lambda to: os.truncate(to / STORED, 5_000), "cannot read"),
    "no weights": (
        lambda to: (to / STORED).unlink(),
        "model.safetensors or pytorch_model.bin is expected",
    ),
    "a missing shard": (lambda to: (sharded(to) / SHARD).unlink(), f"shard {SHARD} is missing"),
    "a foreign shard": (foreign, "its index says otherwise"),
    "shards that are no names": (
        lambda to: indexed(to, '{"weight_map": {"a": 3}}'),
        "index.json: damaged: weight_map.a: ",
    ),
    "brackets without end": (
        lambda to: indexed(to, "[" * 200_000),
        "index.json: damaged: nested too deep",
    ),
    "a Git LFS pointer": (
        lambda to: unpickled(to, "version https://git-lfs.github.com/spec/v1"),
        "pytorch_model.bin: not a file of weights (a Git LFS pointer?)",
    ),
    "a shard outside the folder": (
        lambda to: replaced(sharded(to) / INDEX, "model-00001", "../model-00001"),
        "is missing",
    ),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_checkpoint_is_refused_with_its_fault(fault, folder):
    change, message = BAD[fault]
    change(folder)
    assert message in refused(folder)


def pickled(folder: Path, is_zip: bool = True) -> None:
    torch.save(
        load_file(folder / STORED),
        folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=is_zip,
    )
    (folder / STORED).unlink()


def beside_a_stray_index(folder: Path) -> None:
    (folder / INDEX).write_text('{"weight_map": {"a": "gone.safetensors"}}')


def old_name(name: str) -> str:
    return name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")


@pytest.mark.parametrize(
    "change",
    [
        sharded,
        pickled,
        partial(pickled, is_zip=False),
        partial(renamed, new=old_name),
        beside_a_stray_index,
    ],
)
def test_shards_pickles_and_old_names_of_layer_norms_load_like_one_file(change, folder):
    before, _ = relpos.load(folder)
    change(folder)
    after, _ = relpos.load(folder)
    assert all(map(torch.equal, before.parameters(), after.parameters()))


@pytest.mark.parametrize("kind", ["MultipleChoice", "TokenClassification", "QuestionAnswering"])
@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_a_head_that_computes_something_else_is_refused_by_the_name_of_its_class(
    family, kind, tmp_path
):
    message = refused(saved(host(f"{family}For{kind}"), tmp_path))
    assert f"config.json: architectures={family}For{kind}: " in message
    assert "cannot be expressed here" in message


REFUSED: dict[str, dict[str, dict[str, Any]]] = {
    "ModernBertForMaskedLM": {
        "layer_types=['full_attention', 'full_attention', 'full_attention']: only full_att": {
            "layer_types": ["full_attention"] * 3
        },
        "global_attn_every_n_layers=2: only 3 is supported for modernbert": {
            "layer_types": None,
            "global_attn_every_n_layers": 2,
        },
        "{'rope_type': 'yarn'}}: only the rope_type default is": {
            "rope_parameters": {"full_attention": {"rope_type": "yarn"}}
        },
        "attention_bias=True: only False is supported for modernbert": {"attention_bias": True},
        "layer_types=3: only full_attention in every third layer": {"layer_types": 3},
        "rope_parameters=['full_attention']: only the rope_type default": {
            "rope_parameters": ["full_attention"]
        },
    },
    "DebertaV2ForMaskedLM": {
        "conv_kernel_size=3: only 0 is supported for deberta-v2": {"conv_kernel_size": 3},
        "position_biased_input=True: only False is supported for deberta-v2": {
            "position_biased_input": None
        },
        "share_att_key=False: only True is supported for deberta-v2": {"share_att_key": None},
        "norm_rel_ebd=none: only layer_norm is supported for deberta-v2": {"norm_rel_ebd": None},
        "pos_att_type=['c2p']: only ['c2p', 'p2c'] is supported for deberta-v2": {
            "pos_att_type": "c2p"
        },
        "pos_att_type=[]: only ['c2p', 'p2c'] is supported for deberta-v2": {"pos_att_type": None},
        "layer_norm_eps=1e-12: only 1e-07 is supported for deberta-v2": {"layer_norm_eps": 1e-12},
        "embedding_size=8: only that of hidden_size=16 is supported for deberta-v2": {
            "embedding_size": 8
        },
        "position_buckets=-1: a table without log buckets is not supported": {
            "position_buckets": None
        },
        "buckets must be an even number of 4 or more, not 7": {"position_buckets": 7},
        "pos_att_type=3: only ['c2p', 'p2c'] is supported for deberta-v2": {"pos_att_type": 3},
    },
    "ErnieForMaskedLM": {
        "config.json: use_task_id=True: only False is supported for ernie": {"use_task_id": True}
    },
    "BertForMaskedLM": {
        "position_embedding_type=relative_key_query: only absolute is supported": {
            "position_embedding_type": "relative_key_query"
        },
        "is_decoder=True: only False is supported for bert": {"is_decoder": True},
        "config.json: hidden_act=mish: gelu, gelu_new, relu or silu is expected": {
            "hidden_act": "mish"
        },
        "layers=three: a whole number": {"num_hidden_layers": "three"},
        "hidden=16 is not a multiple of heads=5": {"num_attention_heads": 5},
    },
    "BertForTokenClassification": {
        "a classifier without a pooler: a classifier of tokens cannot be expressed here: ours "
        "classify texts": {"architectures": None}
    },
    "AlbertForMaskedLM": {
        "weight 'albert.encoder.embedding_hidden_mapping_in.bias' is unknown to albert": {}
    },
    **{
        f"{name}ForSequenceClassification": {
            f"config.json: architectures={name}ForSequenceClassification: its classifier computes "
            "something else than ours": {}
        }
        for name in ("DistilBert", "ModernBert", "DebertaV2")
    },
}
"""Class of `transformers` → message → what config.json then has."""
HOSTS = {
    "DebertaV2ForMaskedLM": DEBERTA,
    "AlbertForMaskedLM": {"embedding_size": 16},  # a map between two equal widths
}


@pytest.mark.parametrize(
    ("kind", "message"), [(kind, message) for kind in REFUSED for message in REFUSED[kind]]
)
def test_checkpoints_that_cannot_be_expressed_are_refused_by_name(kind, message, tmp_path):
    folder = saved(host(kind, **HOSTS.get(kind, {"pad_token_id": 0})), tmp_path)
    assert message in refused(changed(folder, **REFUSED[kind][message]))


def test_keys_with_a_default_may_be_left_out_or_null(tmp_path):
    folder = saved(
        host("RoFormerForMaskedLM", embedding_size=8, max_position_embeddings=1536), tmp_path
    )
    before = relpos.load(changed(folder, hidden_act="gelu"))[0]
    replaced(folder / "config.json", "max_position_embeddings", "left_out")
    after = relpos.load(changed(folder, hidden_act=None))[0]
    assert all(map(torch.equal, before.parameters(), after.parameters()))


def test_an_encoder_without_a_family_is_refused(folder):
    assert "model_type=None is not supported" in refused(changed(folder, model_type=None))


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("torch_format", [True, False])
def test_code_in_a_pickle_is_refused_and_not_executed(folder, tmp_path, torch_format):
    (folder / STORED).unlink()
    content = {"bert.embeddings.LayerNorm.bias": Malicious(tmp_path / "executed")}
    if torch_format:
        torch.save(content, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(content, protocol=2))
    assert "holds more than weights: refused, and nothing in it was executed" in refused(folder)
    assert not (tmp_path / "executed").exists()


def test_safetensors_are_read_before_pickles(folder, tmp_path):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Malicious(tmp_path / "executed")))
    relpos.load(folder)
    assert not (tmp_path / "executed").exists()


def test_a_hub_id_without_network_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("nobody/no-such-model").startswith(
        "nobody/no-such-model: no such folder, and the hub gives no such checkpoint"
    )


def test_a_mistyped_folder_is_not_looked_up_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert refused("runs/missing") == "network=runs/missing: no such folder or file"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_stored_number_format_is_kept(dtype, tmp_path):
    model, _ = relpos.load(saved(host("AlbertForMaskedLM", embedding_size=8).to(dtype), tmp_path))
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
