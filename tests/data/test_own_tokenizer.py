"""Tokenizers of other kinds, trained here or brought along: German, code and proteins; ids stay as
they are."""

import io
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from relpos.data.documents import Document
from relpos.data.fast_tokenizer import fast_tokenizer
from relpos.data.published_tokenizer import adopt, load_tokenizer
from relpos.data.tokenizer import Tokenizer, train_tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError

tokenizers = pytest.importorskip("tokenizers", reason="needs transformers")

GERMAN = [
    f"{subject} {verb} die {noun} am {time}, ohne Straßenlärm und Übermut."
    for subject in ("Der Bäcker", "Die Ärztin", "Jürgen", "Das Mädchen")
    for verb in ("überquert", "grüßt", "sieht", "verläßt")
    for noun in ("Brücke", "Größe", "Tür", "Häuser")
    for time in ("Morgen", "Abend", "Fluß")
]
CODE = [
    f"def f{n}(x_{n}): return [x_{n} + {n} for i in range({n * n}) if i != {n}]  # {{}} -> x"
    for n in range(120)
]
PROTEINS = ["".join(random.Random(n).choices("ACDEFGHIKLMNPQRSTVWY", k=90)) for n in range(120)]
TEXTS = {"german": GERMAN, "code": CODE, "proteins": PROTEINS}
ODD = [
    "",
    " ",
    "Zwei  Wörter ",
    "ÄÖÜ ẞ ß",
    "☃ und 漢字",
    "a\tb",
    "x" * 50,
    "🙂🙂",
    "<0x41>",
    "e\u0301",
    "ﬁ",
]


def trained(folder: Path, texts: list[str], **options: Any) -> Tokenizer:
    documents = [Document("text", iter(texts))]
    train_tokenizer(
        documents, folder, **{"vocabulary": 500, "sample": 1000, "threads": 1} | options
    )
    return load_tokenizer(folder)


def ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [row.tolist() for row in tokenizer.encode(texts)]


def fast_ids(fast: Any, texts: list[str]) -> list[list[int]]:
    return [row.ids for row in fast.encode_batch(texts, add_special_tokens=False)]


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("cased", [False, True])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("texts", TEXTS)
def test_the_fast_tokenizer_of_each_kind_gives_its_ids(texts, kind, cased, byte_fallback, tmp_path):
    ours = trained(tmp_path, TEXTS[texts], kind=kind, cased=cased, byte_fallback=byte_fallback)
    fast = fast_tokenizer(ours)
    assert fast_ids(fast, TEXTS[texts] + ODD) == ids(ours, TEXTS[texts] + ODD)


def test_german_keeps_its_case_and_letters_where_it_is_asked_to(tmp_path):
    text = "Die Ärztin grüßt Jürgen"
    for cased, expected in ((True, text), (False, text.lower())):
        ours = trained(tmp_path / str(cased), GERMAN, cased=cased)
        assert ours.decode(ours.encode([text])[0]) == expected


def test_a_protein_has_no_unknown_piece_and_is_one_word(tmp_path):
    ours = trained(tmp_path, PROTEINS, cased=True)
    rows = ours.encode(PROTEINS)
    assert not any((row == ours.unk).any() for row in rows)
    assert [len(Words(ours).split(row)) for row in rows] == [1] * len(rows)


def test_a_character_without_a_piece_is_its_bytes(tmp_path):
    ours = trained(tmp_path, GERMAN, byte_fallback=True)
    (row,) = ours.encode(["der ☃ am abend"])
    assert ours.unk not in row
    assert ours.decode(row) == "der ☃ am abend"
    assert ours.decode_marked(ours.encode_marked("der ☃[MASK] abend")) == "der ☃ [MASK] abend"
    assert [Words(ours).numbers(row)[place] for place in (0, -1)] == [0, 3]


def sentencepiece_model(file: Path, **dials: Any) -> sentencepiece.SentencePieceProcessor:
    """A model of SentencePiece's own trainer, and the file with it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(GERMAN + [f"{line} <sep>  {line}" for line in CODE]), model_writer=model,
        **{"vocab_size": 500, "hard_vocab_limit": False, "minloglevel": 2} | dials,
    )  # fmt: skip
    file.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def adopted(folder: Path) -> Tokenizer:
    """The tokenizer made from the file `theirs`."""
    adopt(folder / "theirs", folder / "ours")
    return load_tokenizer(folder / "ours")


SUFFIX: dict[str, Any] = {"treat_whitespace_as_suffix": True}
KEPT: dict[str, Any] = {"remove_extra_whitespaces": False}
SYMBOLS: dict[str, Any] = {"user_defined_symbols": ["<sep>", "in"]}
DIALS: list[dict[str, Any]] = [
    {}, {"normalization_rule_name": "nmt_nfkc_cf"}, {"control_symbols": ["<ctrl>"]}, {"byte_fallback": True},
    {"unk_id": 3, "pad_id": 0, "bos_id": 1, "eos_id": 2, "split_digits": True},
]  # fmt: skip


@pytest.mark.parametrize("dials", DIALS, ids=str)
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_fast_tokenizer_of_a_model_with_our_options_gives_its_ids(kind, dials, tmp_path):
    theirs = sentencepiece_model(tmp_path / "theirs", model_type=kind, **dials)
    ours = adopted(tmp_path)
    fast = fast_tokenizer(ours)
    texts = [
        *GERMAN,
        *CODE,
        *ODD,
        "<sep>x",
        "a <sep>b <sep> ",
        "<ctrl> a<ctrl>",
        "▁a ▁b",
        "A\u0310B",
        "a\r\nb",
    ]
    pieces = [
        theirs.id_to_piece(number).replace("▁", " ") for number in range(5, theirs.get_piece_size())
    ]
    texts += ["".join(random.Random(n).choices(pieces, k=5)) for n in range(100)]
    assert fast_ids(fast, texts) == theirs.encode(texts) == ids(ours, texts)
    mask = ours.piece(ours.mask)
    marked = [f"die {mask} am", f"un{mask}ed", f"  {mask} a"]
    assert fast_ids(fast, marked) == [ours.encode_marked(text).tolist() for text in marked]
    rows = theirs.encode(GERMAN)
    assert [fast.decode(row) for row in rows] == theirs.decode(rows)


@pytest.mark.parametrize(
    ("dials", "option"),
    [
        ({"model_type": "word"}, "a model_type"),
        ({"model_type": "char"}, "a model_type"),
        ({"control_symbols": ["§"]}, "a control symbol of one character"),
        (SYMBOLS, "user_defined_symbols"),
        (SUFFIX, "treat_whitespace_as_suffix=true"),
        (KEPT, "remove_extra_whitespaces=false"),
        ({"add_dummy_prefix": False}, "add_dummy_prefix=false"),
        ({"split_by_whitespace": False}, "pieces of several words"),
        ({"normalization_rule_name": "nfkc_cf"}, "normalization_rule_name=nfkc_cf"),
        ({"normalization_rule_name": "identity"}, "normalization_rule_name=identity"),
        ({"normalization_rule_tsv": "rule.tsv"}, "normalization_rule_name=user_defined"),
    ],
    ids=str,
)
def test_a_model_with_options_that_we_do_not_train_with_has_no_fast_tokenizer(
    dials, option, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.tsv").write_text("61 62\t63\n")  # ab becomes c
    sentencepiece_model(tmp_path / "theirs", **dials)
    ours = adopted(tmp_path)
    with pytest.raises(RelposError, match=f"there is no fast tokenizer for {option}"):
        fast_tokenizer(ours)


@pytest.mark.parametrize(
    "dials",
    [{}, {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"}],
)
def test_a_sentencepiece_model_keeps_its_ids_and_gets_missing_special_tokens(dials, tmp_path):
    theirs = sentencepiece_model(tmp_path / "theirs", remove_extra_whitespaces=not dials, **dials)
    ours = adopted(tmp_path)
    assert ids(ours, GERMAN + ODD) == theirs.encode(GERMAN + ODD)
    size = theirs.get_piece_size()
    assert (ours.unk, ours.cls, ours.sep) == (0, 1, 2)
    assert (ours.pad, ours.mask, ours.size) == (size, size + 1, size + 2)
    marked = ours.encode_marked("Der [MASK] grüßt").tolist()
    assert marked == [*theirs.encode("Der"), ours.mask, *theirs.encode("grüßt")]
    assert ours.decode_marked(ours.encode_marked("Der [MASK] grüßt")) == "Der [MASK] grüßt"


def stranger(folder: Path, texts: list[str], special: list[str]) -> Any:
    """A tokenizer.json of bytes, as somebody else would make it, and the tokenizer in it."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(
            vocab_size=600, special_tokens=special, initial_alphabet=alphabet
        ),
    )
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "theirs"))
    return tokenizer


@pytest.mark.parametrize(
    "special", [["<s>", "</s>", "<pad>", "<unk>", "<mask>"], ["<|endoftext|>"], []]
)
def test_a_tokenizer_json_keeps_its_ids_and_gets_missing_special_tokens(special, tmp_path):
    theirs = stranger(tmp_path, CODE, special)
    ours = adopted(tmp_path)
    texts = CODE + GERMAN
    assert ids(ours, texts) == [row.ids for row in theirs.encode_batch(texts)]
    assert ours.size == theirs.get_vocab_size() + (5 if len(special) < 5 else 0)
    assert len({ours.pad, ours.unk, ours.cls, ours.sep, ours.mask}) == 5


@pytest.mark.parametrize("dropout", [0.5, None])
def test_pieces_are_not_drawn_by_chance(dropout, tmp_path):
    theirs = stranger(tmp_path, CODE, [])
    plain = [row.ids for row in theirs.encode_batch(CODE)]
    theirs.model.dropout = dropout
    theirs.save(str(tmp_path / "theirs"))
    assert ids(adopted(tmp_path), CODE) == plain
    content = json.loads((tmp_path / "ours" / "tokenizer.json").read_text())
    assert content["model"]["dropout"] is None


def cut(model: Any, trainer: Any, pre_tokenizer: Any, folder: Path) -> Tokenizer:
    """The tokenizer of a stranger's tokenizer.json, trained on `PLAIN`."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(PLAIN, trainer)
    tokenizer.save(str(folder / "theirs"))
    return adopted(folder)


PLAIN = ["the cat sleeps near the river bank", "an old bird walks to the small house"] * 9
UNKNOWN = {"unk_token": "[UNK]"}
SPECIAL = {"special_tokens": ["[UNK]"]}
MODELS = tokenizers.models
TRAINERS = tokenizers.trainers
CUTS = tokenizers.pre_tokenizers


@pytest.mark.parametrize(
    ("model", "trainer", "pre_tokenizer"),
    [
        (MODELS.WordLevel(**UNKNOWN), TRAINERS.WordLevelTrainer(**SPECIAL), CUTS.Whitespace()),
        (
            MODELS.WordPiece(**UNKNOWN),
            TRAINERS.WordPieceTrainer(vocab_size=60, **SPECIAL),
            CUTS.Whitespace(),
        ),
        (
            MODELS.BPE(continuing_subword_prefix="@@", **UNKNOWN),
            TRAINERS.BpeTrainer(vocab_size=60, continuing_subword_prefix="@@", **SPECIAL),
            CUTS.Whitespace(),
        ),
        (
            MODELS.BPE(end_of_word_suffix="</w>", **UNKNOWN),
            TRAINERS.BpeTrainer(vocab_size=60, end_of_word_suffix="</w>", **SPECIAL),
            CUTS.Whitespace(),
        ),
        (MODELS.BPE(), TRAINERS.BpeTrainer(vocab_size=60), CUTS.ByteLevel(add_prefix_space=False)),
        (
            MODELS.Unigram(),
            TRAINERS.UnigramTrainer(vocab_size=60, unk_token="[UNK]", **SPECIAL),
            CUTS.Metaspace(),
        ),
    ],
)
def test_words_begin_where_a_strangers_tokenizer_has_them_begin(
    model, trainer, pre_tokenizer, tmp_path
):
    ours = cut(model, trainer, pre_tokenizer, tmp_path)
    first, other = ours.encode(
        ["cat the cat sleeps near the river bank", "cat the bank sleeps near the river cat"]
    )
    assert len(Words(ours).split(first)) == 8
    assert Words(ours).same(first[1:], other[1:]) or type(model).__name__ == "BPE"
    if type(model).__name__.startswith("Word"):  # an unknown word is one
        assert len(Words(ours).split(ours.encode(["the ☃☃ ☃ cat"])[0])) == 4


BYTES: dict[str, Any] = {"initial_alphabet": CUTS.ByteLevel.alphabet()}


@pytest.mark.parametrize(
    ("model", "trainer", "pre_tokenizer"),
    [
        (MODELS.BPE, TRAINERS.BpeTrainer(vocab_size=60, **SPECIAL), CUTS.Whitespace()),
        (
            MODELS.BPE,
            TRAINERS.BpeTrainer(vocab_size=300, **BYTES, **SPECIAL),
            CUTS.Sequence([CUTS.Whitespace(), CUTS.ByteLevel(add_prefix_space=False)]),
        ),
        (
            partial(MODELS.WordPiece, continuing_subword_prefix=""),
            TRAINERS.WordPieceTrainer(vocab_size=60, continuing_subword_prefix="", **SPECIAL),
            CUTS.Whitespace(),
        ),
    ],
)
def test_a_tokenizer_whose_pieces_do_not_tell_where_words_begin_is_refused(
    model, trainer, pre_tokenizer, tmp_path
):
    ours = cut(model(**UNKNOWN), trainer, pre_tokenizer, tmp_path)
    with pytest.raises(
        RelposError, match=r"^tokenizer .*: its pieces do not tell where words begin"
    ):
        Words(ours)


@pytest.mark.parametrize(
    ("dials", "words"),
    [(SUFFIX, 4), (SUFFIX | SYMBOLS, 4), ({"model_type": "char"}, 4), ({"model_type": "word"}, 3)],
)
def test_words_of_a_sentencepiece_model_are_those_of_the_text(dials, words, tmp_path):
    sentencepiece_model(tmp_path / "theirs", **dials)
    ours = adopted(tmp_path)
    assert [
        len(Words(ours).split(row))
        for row in ours.encode(["Der Bäcker grüßt die Tür", "die Tür, am"])
    ] == [5, words]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"a": ', b"no tokenizer", b"\x00\x01"])
def test_a_file_that_is_no_tokenizer_is_refused_by_name(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(RelposError, match=r"^tokenizer=.*/file: n.* tokenizer\.json"):
        adopt(tmp_path / "file", tmp_path / "ours")
