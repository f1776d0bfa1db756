"""Published checkpoints where a folder is asked for: fine-tuning, order, filling gaps."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

import relpos
from hosts import host, saved
from published import published
from relpos.cli import main
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.runs.plan import plan

SIZES = {"vocab_size": 300, "max_position_embeddings": 130, "type_vocab_size": 1}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A RoBERTa with a tokenizer: other special ids than ours, one token type, two separators, half
    precision."""
    folder = published("roberta", tmp_path / "roberta")
    return saved(host("RobertaForMaskedLM", **SIZES).to(torch.bfloat16), folder)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@torch.no_grad()
def likelihood(model: Any, tokenizer: Any, text: str) -> float:
    """The log-probability of each token while it is masked, added up."""
    ids = torch.tensor([[tokenizer.cls, *tokenizer.encode([text])[0].tolist(), tokenizer.sep]])
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = tokenizer.mask
        total += float(model.float()(masked)[0, place].log_softmax(-1)[ids[0, place]])
    return total


TINY = ["steps=2", "batch=4"]


def tuning(folder: Path) -> DictConfig:
    named = ["task=rte", "intermediate=none", "length=64", f"network={folder}"]
    return compose("finetune", [*TINY, *named])


def test_fine_tuning_starts_from_a_checkpoint_and_leaves_its_files_alone(checkpoint, toy_runs):
    before = contents(checkpoint)
    run = relpos.run(tuning(checkpoint))
    model, tokenizer = relpos.load(run.path)
    assert contents(checkpoint) == before
    assert type(model).__name__ == "Classifier"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert tokenizer.mask == relpos.load(checkpoint)[1].mask  # type: ignore[union-attr]


def test_the_identity_of_a_run_holds_the_files_and_not_their_place(checkpoint, tmp_path):
    other = shutil.copytree(checkpoint, tmp_path / "elsewhere" / "roberta")
    assert plan(tuning(other)).identity == plan(tuning(checkpoint)).identity
    saved(host("RobertaForMaskedLM", **SIZES), other)
    assert plan(tuning(other)).identity != plan(tuning(checkpoint)).identity


def test_a_checkpoint_without_weights_is_refused_when_the_run_is_planned(checkpoint):
    (checkpoint / "model.safetensors").unlink()
    with pytest.raises(RelposError, match="no weights in"):
        plan(tuning(checkpoint))


def test_order_scores_pairs_with_the_special_tokens_of_the_checkpoint(checkpoint, tmp_path):
    (tmp_path / "pairs.txt").write_text("a cat the\na the cat\n")  # the bad one first
    results = relpos.order(
        checkpoint, overrides=[f"pairs={tmp_path}/pairs.txt", "measure=[pairs]", "form=plain"]
    )
    model, tokenizer = relpos.load(checkpoint)
    good, bad = (likelihood(model, tokenizer, text) for text in ("a the cat", "a cat the"))
    assert results["pairs"]["same_words"]["accuracy"] == 100 * (good > bad)


def test_order_refuses_an_encoder_that_predicts_no_words(tmp_path):
    folder = saved(host("RobertaModel", **SIZES), published("roberta", tmp_path / "encoder"))
    with pytest.raises(RelposError, match="this checkpoint has no head that predicts words"):
        relpos.order(folder, overrides=["measure=[pairs]", "pairs=toy"])


@pytest.mark.parametrize(
    "kind", ["RobertaForMaskedLM", pytest.param("RobertaModel", marks=pytest.mark.full)]
)
def test_pre_training_goes_on_from_a_checkpoint_with_its_tokenizer(kind, toy_runs, tmp_path):
    folder = saved(
        host(kind, **SIZES).to(torch.bfloat16), published("roberta", tmp_path / "checkpoint")
    )
    overrides = ["length=32", "evaluations=1", "data.pairs=64", "recipe.lr=1e-12"]
    run = relpos.run(compose("pretrain", [*TINY, *overrides, f"network={folder}"]))
    before, tokenizer = relpos.load(folder)
    after, after_tokenizer = relpos.load(run.path)
    assert type(after).__name__ == "MaskedLM"
    assert after_tokenizer.specials == tokenizer.specials
    encoder, began = after.encoder, getattr(before, "encoder", before)
    for (name, trained), (_, start) in zip(
        encoder.named_parameters(), began.named_parameters(), strict=False
    ):
        torch.testing.assert_close(trained, start.float(), rtol=0, atol=1e-9, msg=name)
    assert run.record["inputs"]["start"]


@pytest.mark.parametrize(
    "kind", ["BertForMaskedLM", "BertModel", "BertForSequenceClassification", "RoFormerModel"]
)
def test_a_published_checkpoint_is_counted(kind, tmp_path, capsys):
    theirs = host(kind)
    assert main(["params", f"network={saved(theirs, tmp_path)}"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["total"] == sum(
        part.numel() for part in theirs.parameters() if part.requires_grad
    )
    assert numbers["total"] == sum(numbers["parts"].values())
