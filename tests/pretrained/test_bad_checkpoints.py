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


def rewritten(folder: Path, **tensors: torch.Tensor | None) -> Path:
    """The folder with other weights; None takes one away. A double underscore stands for a dot."""
    weights = load_file(folder / "model.safetensors") | {
        name.replace("__", "."): value for name, value in tensors.items()
    }
    save_file(
        {name: value.clone() for name, value in weights.items() if value is not None},
        folder / "model.safetensors",
    )
    return folder


def sharded(folder: Path) -> Path:
    """The folder with its weights in two files and an index."""
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    shards = {
        name: f"model-0000{1 + (place >= 9)}-of-00002.safetensors"
        for place, name in enumerate(names)
    }
    for shard in set(shards.values()):
        save_file(
            {name: weights[name].clone() for name in names if shards[name] == shard}, folder / shard
        )
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": shards})
    )
    return folder


def foreign(folder: Path) -> None:
    """One shard in the place of the other."""
    sharded(folder)
    first, second = (folder / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    first.write_bytes(second.read_bytes())


def wrapped(folder: Path, before: str) -> None:
    """The names of weights as a wrapper of the model saves them."""
    weights = load_file(folder / "model.safetensors")
    save_file(
        {before + name: value.clone() for name, value in weights.items()},
        folder / "model.safetensors",
    )


def replaced(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def indexed(folder: Path, index: str) -> None:
    """An index in the place of the weights."""
    (folder / "model.safetensors").rename(folder / "model.safetensors.index.json").write_text(index)


def unpickled(folder: Path, content: str) -> None:
    """A text in the place of the weights."""
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin").write_text(content)


KEY, NORM, SHARD = (
    "bert.encoder.layer.1.attention.self.key.bias",
    "bert.embeddings.LayerNorm.bias",
    "model-00002-of-00002.safetensors",
)
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
    "a missing weight": (lambda to: rewritten(to, **{KEY: None}), f"weight {KEY!r} is missing"),
    "a part of a head": (
        lambda to: rewritten(to, cls__predictions__bias=None),
        "weight 'cls.predictions.bias' is missing",
    ),
    "an unknown weight": (
        lambda to: rewritten(to, bert__encoder__gate=torch.ones(2)),
        "weight 'bert.encoder.gate' is unknown to bert",
    ),
    "a weight of another shape": (
        lambda to: changed(to, vocab_size=41),
        "weight 'bert.embeddings.word_embeddings.weight' has shape (40, 16); by config.json it is "
        "(41, 16)",
    ),
    "quantised weights": (
        lambda to: rewritten(to, **{NORM: torch.ones(16, dtype=torch.int8)}),
        f"weight {NORM!r} is int8",
    ),
    "weights of complex numbers": (
        lambda to: rewritten(to, **{NORM: torch.ones(16, dtype=torch.complex64)}),
        f"weight {NORM!r} is complex64",
    ),
    **{
        f"a weight of {number}": (
            partial(rewritten, **{NORM: torch.full((16,), number)}),
            f"weight {NORM!r} has numbers that are not finite",
        )
        for number in (float("nan"), float("inf"))
    },
    **{
        f"names that begin with {before}": (
            partial(wrapped, before=before),
            f"all names begin with {before!r}, as ",
        )
        for before in ("module.", "_orig_mod.", "model.")
    },
    "truncated weights": (lambda to: os.truncate(to / "model.safetensors", 5_000), "cannot read"),
    "no weights": (
        lambda to: (to / "model.safetensors").unlink(),
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
        lambda to: replaced(
            sharded(to) / "model.safetensors.index.json", "model-00001", "../model-00001"
        ),
        "is missing",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_bad_is_named(what, folder):
    change, message = BAD[what]
    change(folder)
    assert message in refused(folder)


def pickled(folder: Path, is_zip: bool = True) -> None:
    torch.save(
        load_file(folder / "model.safetensors"),
        folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=is_zip,
    )
    (folder / "model.safetensors").unlink()


def beside_a_stray_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "gone.safetensors"}}'
    )


def with_old_names(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    old = {
        name: name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
        for name in weights
    }
    save_file(
        {old[name]: weight.clone() for name, weight in weights.items()},
        folder / "model.safetensors",
    )


@pytest.mark.parametrize(
    "stored",
    [sharded, pickled, partial(pickled, is_zip=False), with_old_names, beside_a_stray_index],
)
def test_shards_pickles_and_old_names_of_layer_norms_load_like_one_file(stored, folder):
    before, _ = relpos.load(folder)
    stored(folder)
    after, _ = relpos.load(folder)
    assert all(map(torch.equal, before.parameters(), after.parameters()))


@pytest.mark.parametrize("kind", ["MultipleChoice", "TokenClassification", "QuestionAnswering"])
@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_a_head_that_computes_something_else_is_refused_by_the_name_of_its_class(
    family, kind, tmp_path
):
    said = refused(saved(host(f"{family}For{kind}"), tmp_path))
    assert f"config.json: architectures={family}For{kind}: " in said
    assert "cannot be expressed here" in said


def test_a_classifier_of_tokens_is_not_refused_for_the_pooler_that_it_lacks(tmp_path):
    folder = changed(saved(host("BertForTokenClassification"), tmp_path), architectures=None)
    assert (
        "a classifier without a pooler: a classifier of tokens cannot be expressed here: ours "
        "classify texts" in refused(folder)
    )


@pytest.mark.parametrize(
    "kind",
    [f"{name}ForSequenceClassification" for name in ("DistilBert", "ModernBert", "DebertaV2")],
)
def test_a_classifier_of_a_family_in_which_ours_do_not_compute_it_is_refused(kind, tmp_path):
    said = refused(saved(host(kind, pad_token_id=0), tmp_path))
    assert (
        f"config.json: architectures={kind}: its classifier computes something else than ours"
        in said
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"layer_types": ["full_attention"] * 3},
            "layer_types=['full_attention', 'full_attention', 'full_attention']: only full_att",
        ),
        (
            {"layer_types": None, "global_attn_every_n_layers": 2},
            "global_attn_every_n_layers=2: only 3 is supported for modernbert",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "{'rope_type': 'yarn'}}: only the rope_type default is",
        ),
        ({"attention_bias": True}, "attention_bias=True: only False is supported for modernbert"),
        ({"layer_types": 3}, "layer_types=3: only full_attention in every third layer"),
        (
            {"rope_parameters": ["full_attention"]},
            "rope_parameters=['full_attention']: only the rope_type default",
        ),
    ],
)
def test_a_modernbert_of_another_kind_is_refused_by_its_key(config, message, tmp_path):
    assert message in refused(
        changed(saved(host("ModernBertForMaskedLM", pad_token_id=0), tmp_path), **config)
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"conv_kernel_size": 3}, "conv_kernel_size=3: only 0 is supported for deberta-v2"),
        (
            {"position_biased_input": None},
            "position_biased_input=True: only False is supported for deberta-v2",
        ),
        ({"share_att_key": None}, "share_att_key=False: only True is supported for deberta-v2"),
        ({"norm_rel_ebd": None}, "norm_rel_ebd=none: only layer_norm is supported for deberta-v2"),
        (
            {"pos_att_type": "c2p"},
            "pos_att_type=['c2p']: only ['c2p', 'p2c'] is supported for deberta-v2",
        ),
        (
            {"pos_att_type": None},
            "pos_att_type=[]: only ['c2p', 'p2c'] is supported for deberta-v2",
        ),
        ({"layer_norm_eps": 1e-12}, "layer_norm_eps=1e-12: only 1e-07 is supported for deberta-v2"),
        (
            {"embedding_size": 8},
            "embedding_size=8: only that of hidden_size=16 is supported for deberta-v2",
        ),
        (
            {"position_buckets": None},
            "position_buckets=-1: a table without log buckets is not supported",
        ),
        ({"position_buckets": 7}, "buckets must be an even number of 4 or more, not 7"),
        ({"pos_att_type": 3}, "pos_att_type=3: only ['c2p', 'p2c'] is supported for deberta-v2"),
    ],
)
def test_a_deberta_of_another_kind_is_refused_by_its_key(config, message, tmp_path):
    assert message in refused(
        changed(saved(host("DebertaV2ForMaskedLM", **DEBERTA), tmp_path), **config)
    )


def test_an_ernie_that_embeds_its_task_is_refused(tmp_path):
    said = refused(saved(host("ErnieForMaskedLM", use_task_id=True), tmp_path))
    assert "config.json: use_task_id=True: only False is supported for ernie" in said


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_roformer_with_another_table_than_that_of_sines_is_refused(dtype, tmp_path):
    folder = saved(host("RoFormerForMaskedLM", embedding_size=8).to(dtype), tmp_path)
    name = "roformer.encoder.embed_positions.weight"
    table = load_file(folder / "model.safetensors")[name]
    assert relpos.load(folder)[1] is None
    table[7, 1] += 0.02
    assert f"weight {name!r} is not the table that it is by config.json" in refused(
        rewritten(folder, **{name: table})
    )
    assert f"weight {name!r} is not the table" in refused(rewritten(folder, **{name: table[:-1]}))


def test_keys_with_a_default_may_be_left_out_or_null(tmp_path):
    folder = saved(
        host("RoFormerForMaskedLM", embedding_size=8, max_position_embeddings=1536), tmp_path
    )
    before = relpos.load(changed(folder, hidden_act="gelu"))[0]
    config = json.loads((folder / "config.json").read_text())
    del config["max_position_embeddings"]
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": None}))
    after = relpos.load(folder)[0]
    assert all(map(torch.equal, before.parameters(), after.parameters()))


def test_an_albert_with_a_map_between_two_equal_widths_is_refused_by_its_name(tmp_path):
    folder = saved(host("AlbertForMaskedLM", embedding_size=16), tmp_path)
    assert (
        "weight 'albert.encoder.embedding_hidden_mapping_in.bias' is unknown to albert"
        in refused(folder)
    )


def test_without_a_family_the_names_of_the_weights_say_it(folder):
    same = relpos.load(folder)[0].state_dict()
    old = relpos.load(changed(folder, model_type=None))[0].state_dict()
    assert old.keys() == same.keys()
    assert all(torch.equal(old[name], same[name]) for name in same)


def test_an_encoder_without_a_family_is_refused(folder):
    weights = load_file(folder / "model.safetensors")
    bare = {
        name.removeprefix("bert."): value.clone()
        for name, value in weights.items()
        if name.startswith("bert.")
    }
    save_file(bare, folder / "model.safetensors")
    assert "model_type is missing, and the names of the weights do not say it" in refused(
        changed(folder, model_type=None)
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "position_embedding_type",
            "relative_key_query",
            "position_embedding_type=relative_key_query: only absolute is supported",
        ),
        ("is_decoder", True, "is_decoder=True: only False is supported for bert"),
        (
            "hidden_act",
            "mish",
            "config.json: hidden_act=mish: gelu, gelu_new, relu or silu is expected",
        ),
        ("num_hidden_layers", "three", "layers=three: a whole number"),
        ("num_attention_heads", 5, "hidden=16 is not a multiple of heads=5"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_its_key(folder, key, value, message):
    assert message in refused(changed(folder, **{key: value}))


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("torch_format", [True, False])
def test_code_in_a_pickle_is_refused_and_not_executed(folder, tmp_path, torch_format):
    (folder / "model.safetensors").unlink()
    content = {"bert.embeddings.LayerNorm.bias": Malicious(tmp_path / "executed")}
    if torch_format:
        torch.save(content, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(content, protocol=2))
    assert "holds more than weights: refused, and nothing in it was executed" in refused(folder)
    assert not (tmp_path / "executed").exists()


def test_safetensors_come_first(folder, tmp_path):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Malicious(tmp_path / "executed")))
    relpos.load(folder)
    assert not (tmp_path / "executed").exists()


def test_a_hub_id_without_network_is_one_line(tmp_path, monkeypatch):
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
