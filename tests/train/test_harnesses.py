"""Public evaluation harnesses score exported networks as `relpos.Score` does. Runs where the harnesses are installed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from relpos.analysis.likelihood import Score
from relpos.commands.export import write
from relpos.data.pairs import PairItem, ToyPairs
from relpos.data.tokenizer import Tokenizer
from relpos.model.heads import MaskedLM
from relpos.train.network import network
from schemes import SIZE, node

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
PAIRS = ToyPairs(count=2).pairs()
TASK = """
task: pairs
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}, cache_dir: {cache}}}
output_type: multiple_choice
test_split: test
doc_to_text: ""
doc_to_choice: "{{{{[sentence_good, sentence_bad]}}}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""


@pytest.fixture
def tokenizer(prepared: Path) -> Tokenizer:
    return Tokenizer.load(next((prepared / "tokenizer").glob("*/tokenizer.model")))


def exported(folder: Path, tokenizer: Tokenizer, attention: str) -> MaskedLM:
    size = SIZE | {"attention": attention}
    settings = {"size": size, "position": node("position", "composite"), "conv": node("conv", "none"), "vocabulary": tokenizer.size}
    torch.manual_seed(0)
    model: MaskedLM = network(settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    write(folder, model, settings, tokenizer, str)
    return model


def test_lm_eval_finds_the_same_likelihoods_of_a_causal_network(tokenizer: Tokenizer, tmp_path: Path) -> None:
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    model = exported(tmp_path / "out", tokenizer, "causal")
    file, tasks = tmp_path / "pairs.jsonl", tmp_path / "tasks"
    file.write_text("\n".join(json.dumps({"sentence_good": pair.texts[0], "sentence_bad": pair.texts[1]}) for pair in PAIRS))
    tasks.mkdir()
    (tasks / "pairs.yaml").write_text(TASK.format(file=file, cache=tmp_path / "cache"))
    theirs = HFLM(pretrained=str(tmp_path / "out"), trust_remote_code=True, device="cpu", batch_size=8)
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = lm_eval.simple_evaluate(model=theirs, tasks=["pairs"], task_manager=manager, bootstrap_iters=0)
    ours = [scores(Score(model, tokenizer), pair) for pair in PAIRS]
    for sample, expected in zip(found["samples"]["pairs"], ours, strict=True):
        assert [answer[0] for answer in sample["filtered_resps"]] == pytest.approx(expected, abs=1e-3)
    assert found["results"]["pairs"]["acc,none"] == sum(good > bad for good, bad in ours) / len(ours)


def scores(score: Any, pair: PairItem) -> list[float]:
    return [score(text).total for text in pair.texts]


def test_minicons_finds_the_same_pseudo_likelihoods(tokenizer: Tokenizer, tmp_path: Path) -> None:
    scorer = pytest.importorskip("minicons.scorer")
    model = exported(tmp_path / "out", tokenizer, "bidirectional")
    host = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out", trust_remote_code=True)
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    theirs = scorer.MaskedLMScorer(host, "cpu", tokenizer=fast)
    texts = [text.removesuffix(".") for pair in PAIRS for text in pair.texts]
    for form, name in (("plain", "original"), ("within_word", "within_word_l2r")):
        ours = [Score(model, tokenizer, form)(text).total for text in texts]
        batch = fast(texts, padding=True)  # a list of texts would need a method that transformers 5 no longer has
        found = theirs.sequence_score(batch, reduction=lambda score: score.sum().item(), PLL_metric=name)
        assert found == pytest.approx(ours, abs=1e-3)
