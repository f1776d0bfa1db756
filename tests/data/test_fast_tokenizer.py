"""The fast tokenizer gives the ids of our tokenizer."""

import json
from unicodedata import normalize

import pytest

from relpos.data.documents import Document
from relpos.data.fast_tokenizer import fast_tokenizer, write_fast_tokenizer
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import CLS, SEP, UNK, Tokenizer, train_tokenizer

tokenizers = pytest.importorskip("tokenizers", reason="needs relpos[pretrained]")

ODD = [
    "", " ", "The Dogs  SLEEP.", " leading and trailing ", "tab\tand\u00a0no-break\u3000wide", "naïve ﬁancée, ½ Straße ＦＵＬＬ",
    "unknown ☃☃ ☃", "<unk> and < unk >", "[mask]", "e\u0301 e\u0323\u0301 \u1e69", "a\u200bb\u00adc", "ÅÅ \u212b",
    "1,000.50—“quoted”…",
]  # fmt: skip


def differing(tokenizer: Tokenizer, texts: list[str]) -> list[str]:
    fast = fast_tokenizer(tokenizer)
    theirs = fast.encode_batch(texts, add_special_tokens=False)
    return [
        text
        for text, ids, other in zip(texts, tokenizer.encode(texts), theirs, strict=True)
        if ids.tolist() != other.ids
    ]


def test_ids_of_the_toy_language_and_of_odd_texts_are_equal(tokenizer, prepared):
    corpus = next((prepared / "toy").rglob("*.txt"))
    lines = corpus.read_text(encoding="utf-8").splitlines()[:2000]
    assert len(lines) >= 100
    assert differing(tokenizer, lines + ODD) == []


def test_ids_of_decomposed_texts_are_equal(tmp_path):
    lines = [
        "각 나라의 말은 서로 다르다",
        "tiếng việt có nhiều dấu thanh",
        "naïve café; Łódź",
        "שָׁלוֹם",
        "क़लम",
    ]
    train_tokenizer([Document("text", iter(lines * 40))], tmp_path, 300, 1000, 1)
    tokenizer = load_tokenizer(tmp_path)
    forms = [normalize(form, line) for line in lines for form in ("NFC", "NFD", "NFKD")]
    assert differing(tokenizer, forms) == []
    # Each character that has a decomposition, in a word; but U+0344, which is discouraged, and
    # Dives Akuru's, which is rare.
    letters = (chr(number) for number in range(0x20, 0x11000) if number != 0x344)
    pairs = ((letter, normalize("NFD", letter)) for letter in letters)
    words = [f"a{parts}b" for letter, parts in pairs if parts != letter]
    assert len(words) > 12_000
    assert differing(tokenizer, words) == []


def test_special_tokens_in_a_text_have_the_ids_of_our_tokenizer(tokenizer):
    texts = [
        "the [MASK] sleeps.",
        "the [MASK], and [MASK].",
        "[MASK] sleeps",
        "dogs [SEP] cats",
        "un[MASK]ed",
        "a [PAD][PAD]",
        " [MASK]",
    ]
    fast = fast_tokenizer(tokenizer)
    for text in texts:
        ids = fast.encode(text, add_special_tokens=False).ids
        assert ids == tokenizer.encode_marked(text).tolist(), text


def test_a_text_stands_between_cls_and_sep_and_a_pair_has_the_types_asked_for(tokenizer, tmp_path):
    first, second = (ids.tolist() for ids in tokenizer.encode(["the dogs", "sleep"]))
    for second_type in (0, 1):
        write_fast_tokenizer(tmp_path, tokenizer, None, second_type)
        fast = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        encoded = fast.encode("the dogs", "sleep")
        assert encoded.ids == [CLS, *first, SEP, *second, SEP]
        assert encoded.type_ids == [0] * (len(first) + 2) + [second_type] * (len(second) + 1)


def test_auto_tokenizer_reads_the_folder(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
    write_fast_tokenizer(tmp_path, tokenizer, max_length=64)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.is_fast
    for role in ("pad", "unk", "mask"):
        assert getattr(theirs, f"{role}_token_id") == getattr(tokenizer, role)
    assert (len(theirs), theirs.model_max_length) == (tokenizer.size, 64)
    (ids,) = tokenizer.encode(["the dogs sleep."])
    assert theirs("the Dogs sleep.").input_ids == [CLS, *ids, SEP]
    assert theirs.decode(ids) == "the dogs sleep."
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    assert theirs.get_vocab()["[UNK]"] == UNK == model["unk_id"]


def test_the_names_of_the_special_tokens_are_ours(tokenizer):
    fast = fast_tokenizer(tokenizer)
    assert {name: fast.token_to_id(name) for name in tokenizer.specials} == tokenizer.specials
