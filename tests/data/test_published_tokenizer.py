"""Tokenizers of published checkpoints: the ids that `transformers` gives, special tokens, and words
under all three kinds."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from published import SPECIAL, TEXT, published, tokenizers, transformers
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError

WORDS = ["the", "cat", ",", "a", "cattle", "mat", "!"]


def words_of(tokenizer: Tokenizer) -> list[str]:
    """The words of `TEXT`."""
    words = Words(tokenizer).split(tokenizer.encode([TEXT])[0])
    return [tokenizer.decode(word).strip() for word in words]


@pytest.mark.parametrize("kind", SPECIAL)
def test_ids_are_those_of_transformers(kind, tmp_path):
    tokenizer = load_tokenizer(published(kind, tmp_path))
    host = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.encode([TEXT])[0].tolist() == host(TEXT, add_special_tokens=False)["input_ids"]
    assert tokenizer.size == len(host)
    for role in ("pad", "unk", "mask", "cls", "sep"):
        assert getattr(tokenizer, role) == getattr(host, f"{role}_token_id")


@pytest.mark.parametrize(
    ("kind", "class_name"),
    [
        ("bert", "RobertaTokenizer"),
        ("bert", "AlbertTokenizer"),
        ("roberta", "BertTokenizer"),
        ("albert", "BertTokenizer"),
    ],
)
def test_tokenizer_json_counts_and_a_line_says_where_a_class_reads_it_otherwise(
    kind, class_name, tmp_path, capsys
):
    folder = published(kind, tmp_path / "published")
    expected = load_tokenizer(folder).encode([TEXT])[0].tolist()
    assert capsys.readouterr().err == ""
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings | {"tokenizer_class": class_name})
    )
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode([TEXT])[0].tolist() == expected
    assert "tokenizer.json counts" in capsys.readouterr().err
    tokenizer.save(tmp_path / "copy")
    copy = transformers.AutoTokenizer.from_pretrained(tmp_path / "copy")
    assert copy(TEXT, add_special_tokens=False)["input_ids"] == expected


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_special_token_in_a_text_is_text_until_it_is_asked_for(kind, tmp_path):
    tokenizer = load_tokenizer(published(kind, tmp_path))
    for _ in range(2):  # also after `encode_marked`
        assert tokenizer.mask not in tokenizer.encode([f"the {SPECIAL[kind]['mask_token']}"])[0]
        marked = tokenizer.encode_marked("the [MASK] cat").tolist()
        assert marked.count(tokenizer.mask) == 1


@pytest.mark.parametrize("kind", SPECIAL)
def test_words_are_those_of_the_text(kind, tmp_path):
    assert words_of(load_tokenizer(published(kind, tmp_path))) == WORDS


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_saved_tokenizer_loads_as_the_same_one(kind, tmp_path):
    tokenizer = load_tokenizer(published(kind, tmp_path / "published"))
    tokenizer.save(tmp_path / "copy")
    copy = load_tokenizer(tmp_path / "copy")
    np.testing.assert_array_equal(copy.encode([TEXT])[0], tokenizer.encode([TEXT])[0])
    assert copy.specials == tokenizer.specials


def test_a_strangers_code_is_not_named_in_what_is_saved(tmp_path):
    folder = published("bert", tmp_path / "published")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    evil = {"AutoTokenizer": ["stranger/repository--evil.Tokenizer", None]}
    path.write_text(json.dumps(settings | {"auto_map": evil}), encoding="utf-8")
    load_tokenizer(folder).save(tmp_path / "copy")
    for file in (tmp_path / "copy").iterdir():
        assert "evil" not in file.read_text(encoding="utf-8"), file.name


def sentencepiece_model(model_type: str) -> bytes:
    """A model file as ALBERT's, which holds its special tokens, DeBERTa's, which holds all but
    [MASK], or XLM-R's, with none."""
    import io

    import sentencepiece

    deberta = {
        "pad_id": 0, "pad_piece": "[PAD]", "bos_id": 1, "bos_piece": "[CLS]", "eos_id": 2, "eos_piece": "[SEP]",
        "unk_id": 3, "unk_piece": "[UNK]",
    }  # fmt: skip
    special = {
        "pad_id": 0, "pad_piece": "<pad>", "unk_id": 1, "bos_id": -1, "eos_id": -1,
        "control_symbols": ["[CLS]", "[SEP]"], "user_defined_symbols": ["[MASK]"],
    }  # fmt: skip
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEXT, "the mat of a cat sat"] * 30), model_writer=model, vocab_size=50, hard_vocab_limit=False,
        minloglevel=2, **{"albert": special, "deberta-v2": deberta}.get(model_type, {}),
    )  # fmt: skip
    return model.getvalue()


@pytest.mark.parametrize(
    ("model_type", "separators"),
    [("bert", 1), ("roberta", 2), ("albert", 1), ("deberta-v2", 1), ("xlm-roberta", 2)],
)
def test_vocabularies_without_tokenizer_json_are_read(model_type, separators, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    if model_type == "bert":
        words = [*SPECIAL["bert"].values(), "the", "cat", "##tle", "a", "mat", ",", "!"]
        (tmp_path / "vocab.txt").write_text("\n".join(words))
    elif model_type == "roberta":
        trained = tokenizers.ByteLevelBPETokenizer()
        trained.train_from_iterator(
            [TEXT] * 3, vocab_size=280, special_tokens=list(SPECIAL["roberta"].values())
        )
        trained.save_model(str(tmp_path))
    else:
        name = {"albert": "spiece.model", "deberta-v2": "spm.model"}.get(
            model_type, "sentencepiece.bpe.model"
        )
        (tmp_path / name).write_bytes(sentencepiece_model(model_type))
    tokenizer = load_tokenizer(tmp_path)
    assert words_of(tokenizer) == WORDS
    assert tokenizer.separators == separators


def test_texts_are_neither_cut_nor_padded_whatever_the_file_says(tmp_path):
    folder = published("bert", tmp_path)
    backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.enable_truncation(3)
    backend.enable_padding(length=5)
    backend.save(str(folder / "tokenizer.json"))
    assert [len(ids) for ids in load_tokenizer(folder).encode(["the", TEXT])] == [1, 8]


@pytest.mark.parametrize(
    ("kind", "key", "rows"),
    [("bert", "vocab_size", 14), ("bert", "vocab_size", 5000), ("relpos", "vocabulary", 14)],
)
def test_a_tokenizer_and_a_network_that_disagree_are_refused(kind, key, rows, tmp_path):
    folder = published("bert", tmp_path)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, key: rows}))
    with pytest.raises(RelposError, match=rf"its ids go up to 14, config.json says {key}={rows:,}"):
        load_tokenizer(folder)


def test_a_table_of_words_may_be_rounded_up(tmp_path):
    folder = published("bert", tmp_path)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 64}))
    assert load_tokenizer(folder).size == 15


def test_a_damaged_tokenizer_is_refused_in_one_line(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(RelposError, match=r"^tokenizer .*$"):
        load_tokenizer(tmp_path)


def changed(folder: Path, change: Callable[[dict[str, int]], None]) -> Path:
    """The folder with other words in its tokenizer."""
    file = published("bert", folder) / "tokenizer.json"
    content = json.loads(file.read_text())
    change(content["model"]["vocab"])
    file.write_text(json.dumps(content))
    return folder


def test_the_size_counts_ids_without_a_piece(tmp_path):
    """A network would otherwise have fewer rows than the tokenizer has ids."""
    loaded = load_tokenizer(changed(tmp_path, lambda words: words.update(zebra=40)))
    assert (loaded.size, loaded.encode(["zebra"])[0].tolist()) == (41, [40])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda words: words.update(zebra=2**31), "it has 16 pieces, and ids up to 2,147,483,648"),
        (lambda words: words.pop("[UNK]"), "Missing .*UNK"),
    ],
)
def test_a_vocabulary_that_cannot_encode_is_refused(change, message, tmp_path):
    with pytest.raises(RelposError, match=rf"^tokenizer .*: .*{message}"):
        load_tokenizer(changed(tmp_path, change))
