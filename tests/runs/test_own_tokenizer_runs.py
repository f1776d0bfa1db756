"""`tokenizer=FILE`, and a tokenizer of another kind: the run, its identity, going on, and the
exported folder."""

import io
import json
import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file

import relpos
from interrupted import interrupt
from published import published
from relpos.cli import main
from relpos.config.compose import compose
from relpos.data.published_tokenizer import adopt, load_tokenizer
from relpos.data.toy.corpus import word_list
from relpos.errors import RelposError
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run

tokenizers = pytest.importorskip("tokenizers", reason="needs transformers")
transformers = pytest.importorskip("transformers")

OVERRIDES = ["steps=4", "batch=4", "checkpoint_every=2", "evaluations=1", "log_every=1"]
TEXTS = [" ".join(word_list()[at : at + 8]) + "." for at in range(0, 400, 4)]


def bytes_of_bpe(file: Path) -> Path:
    """A tokenizer.json whose special tokens stand in an order of its own."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    special = ["<mask>", "<s>", "<unk>", "</s>", "<pad>"]
    tokenizer.train_from_iterator(
        TEXTS,
        tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False),
    )
    tokenizer.save(str(file))
    return file


def sentencepiece_model(file: Path) -> Path:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        vocab_size=300,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    file.write_bytes(model.getvalue())
    return file


def planned(*overrides: str) -> Run:
    return plan(compose("pretrain", [*OVERRIDES, *overrides]))


@pytest.mark.parametrize(
    "make", [bytes_of_bpe, pytest.param(sentencepiece_model, marks=pytest.mark.full)]
)
def test_a_strangers_tokenizer_trains_goes_on_and_is_exported_with_equal_ids(
    make, toy_runs, tmp_path
):
    file = make(tmp_path / "theirs")
    run = planned(f"tokenizer={file}")
    interrupt(run, 2)
    if make is bytes_of_bpe:
        wanted = [row.ids for row in tokenizers.Tokenizer.from_file(str(file)).encode_batch(TEXTS)]
    else:
        wanted = sentencepiece.SentencePieceProcessor(model_file=str(file)).encode(TEXTS)
    file.unlink()  # the run has what it needs of it
    execute(run)
    assert [start["from_step"] for start in run.record["starts"]] == [0, 2]
    stopped = load_file(run.path / "model" / "model.safetensors")
    shutil.rmtree(run.path)
    execute(run)
    assert all(
        torch.equal(value, stopped[name])
        for name, value in load_file(run.path / "model" / "model.safetensors").items()
    )

    model, ours = relpos.load(run.path)
    assert ours is not None
    assert [row.tolist() for row in ours.encode(TEXTS)] == wanted
    assert main(["export", f"network={run.path}", f"to={tmp_path / 'exported'}"]) == 0
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert [exported(text)["input_ids"] for text in TEXTS] == [
        [ours.cls, *ids, ours.sep] for ids in wanted
    ]
    config = json.loads((tmp_path / "exported" / "config.json").read_text())
    vocabulary = config.get("vocab_size", config.get("vocabulary"))
    assert (
        (vocabulary, config["pad_token_id"])
        == (ours.size, ours.pad)
        == (len(exported), exported.pad_token_id)
    )
    assert exported.mask_token_id == ours.mask
    again, same = relpos.load(tmp_path / "exported")
    assert same is not None
    assert same.encode(TEXTS)[0].tolist() == wanted[0]
    ids = torch.tensor([[ours.cls, *wanted[0], ours.sep]])
    assert torch.equal(again(ids, torch.ones_like(ids)), model(ids, torch.ones_like(ids)))


def test_the_identity_follows_the_tokenizers_content_and_defaults_keep_theirs(tmp_path):
    first, second = sentencepiece_model(tmp_path / "first"), tmp_path / "second"
    shutil.copyfile(first, second)
    identity = planned(f"tokenizer={first}").identity
    assert planned(f"tokenizer={second}").identity == identity
    assert (
        planned(f"tokenizer={first}").inputs["tokenizer"].path
        == planned(f"tokenizer={second}").inputs["tokenizer"].path
    )
    bytes_of_bpe(second)
    assert planned(f"tokenizer={second}").identity not in (identity, planned().identity)
    assert (
        planned("tokenizer.kind=unigram", "tokenizer.cased=false", "tokenizer=null").identity
        == planned().identity
    )
    others = [
        ["tokenizer.kind=bpe"],
        ["tokenizer.cased=true"],
        ["tokenizer.byte_fallback=true"],
        ["tokenizer.kind=bpe", "tokenizer.cased=true"],
    ]
    assert len({planned(*other).identity for other in [[], *others]}) == 5
    tuned = plan(
        compose(
            "finetune", ["task=rte", "intermediate=none", f"tokenizer={first}", "pretrain.steps=4"]
        )
    )
    assert (
        tuned.inputs["start"].inputs["tokenizer"].meaning
        == planned(f"tokenizer={first}").inputs["tokenizer"].meaning
    )


@pytest.mark.parametrize("kind", ["bert", "vocab.txt", "run"])
def test_the_tokenizer_of_a_checkpoints_folder_is_taken(kind, toy_runs, tmp_path):
    folder = tmp_path / "checkpoint"
    if kind == "run":  # its tokenizer lies in model/
        shutil.copytree(next((toy_runs / "tokenizer").iterdir()), folder / "model")
    else:
        published("bert", folder)
    if kind == "vocab.txt":
        words = transformers.AutoTokenizer.from_pretrained(folder).get_vocab()
        (folder / "vocab.txt").write_text("\n".join(sorted(words, key=words.__getitem__)))
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "BertTokenizer"})
        )
    wanted = load_tokenizer(folder / "model" if kind == "run" else folder)
    run = planned(f"tokenizer={folder}").inputs["tokenizer"]
    identity = run.identity
    execute(run)
    assert load_tokenizer(run.path).encode(TEXTS)[0].tolist() == wanted.encode(TEXTS)[0].tolist()
    shutil.copytree(folder, tmp_path / "copy")
    assert planned(f"tokenizer={tmp_path / 'copy'}").inputs["tokenizer"].identity == identity


def test_a_vocabulary_alone_is_refused_in_plain_words(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\nthe\n")
    with pytest.raises(
        RelposError,
        match=r"vocab\.txt: neither a SentencePiece model nor a tokenizer\.json; of a vocab\.txt name",
    ):
        adopt(tmp_path / "vocab.txt", tmp_path / "ours")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_cased_tokenizer_with_bytes_is_trained_and_exported(kind, tmp_path):
    (tmp_path / "a.csv").write_text(
        "body\n" + "\n".join(f"Der Bäcker grüßt {n} Mädchen. Sie Grüßt zurück." for n in range(60))
    )
    dials = [
        f"tokenizer.kind={kind}",
        "tokenizer.cased=true",
        "tokenizer.byte_fallback=true",
        "vocabulary=400",
    ]
    run = execute(
        planned("data=files", f"data.corpus={tmp_path / 'a.csv'}", "data.text=body", *dials)
    )
    assert main(["export", f"network={run.path}", f"to={tmp_path / 'exported'}"]) == 0
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    text = "Der Bäcker grüßt ☃ 7 Mädchen"
    assert exported.decode(exported(text)["input_ids"], skip_special_tokens=True) == text


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["tokenizer={file}", "vocabulary=8000"],
            "vocabulary=8000: the pieces come from tokenizer=",
        ),
        (
            ["tokenizer={file}", "tokenizer.cased=true"],
            "tokenizer.cased=true: the pieces come from tokenizer=",
        ),
        (["tokenizer={file}.not"], ": there is no such file"),
        (["tokenizer={folder}"], ": there is no such file, and no folder with a tokenizer"),
        (["tokenizer.kind=wordpiece"], "tokenizer.kind=wordpiece: unigram or bpe is expected"),
        (["network={folder}", "tokenizer={file}"], "the network comes from network="),
    ],
)
def test_contradicting_tokenizer_keys_are_refused_in_a_line(overrides, message, tmp_path, refused):
    file = sentencepiece_model(tmp_path / "theirs.model")
    named = [override.format(file=file, folder=tmp_path) for override in overrides]
    assert message in refused("pretrain", *named)
