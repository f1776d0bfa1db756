"""What leaves as a folder of Hugging Face computes there, and here again, what it computes here."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import relpos
from published import published
from relpos.analysis.likelihood import FillMask
from relpos.commands.export import write
from relpos.data.glue import Rows
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.task_batches import collate, encode
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.model.build import build
from relpos.model.heads import Classifier
from relpos.ranges import parsed
from schemes import CONVS, POSITIONS, SIZE, node, sampled

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
transformers.utils.logging.disable_progress_bar()

WIDE = {"embedding": 8}  # as wide as the layers
ALBERT = {"share_layers": True, "activation": "gelu_new"}
PAIRS = [(name, "none") for name in sampled(POSITIONS)]
PAIRS += [("none", name) for name in sampled(CONVS) if name not in ("none", "convbert")]


def network_of(
    tokenizer: Tokenizer, size: dict[str, Any], position: str, conv: str = "none", **more: Any
) -> Any:
    """A network in float64 whose parameters are all away from zero."""
    settings = {
        "size": SIZE | size,
        "position": node("position", position),
        "conv": node("conv", conv),
        "vocabulary": tokenizer.size,
    } | more
    torch.manual_seed(0)
    model = build(parsed(Architecture, settings)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model


def exported(
    tokenizer: Tokenizer, folder: Path, size: dict[str, Any], position: str, **more: Any
) -> Any:
    """A network without convolution, which has left into the folder."""
    model = network_of(tokenizer, size, position, **more)
    write(folder, model, tokenizer, str)
    return model


def batch(tokenizer: Tokenizer, padded: bool = True) -> tuple[Tensor, Tensor]:
    ids = torch.randint(5, tokenizer.size, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    if padded:
        mask[1, 6:] = 0
    return ids, mask


def theirs(folder: Path, auto: str = "AutoModelForMaskedLM") -> Any:
    return getattr(transformers, auto).from_pretrained(folder, dtype=torch.float64).eval()


@pytest.mark.parametrize(("position", "conv"), PAIRS)
def test_every_other_network_opens_with_both_libraries(position, conv, tokenizer, tmp_path):
    model = network_of(tokenizer, {"activation": "relu"}, position, conv)
    config = write(tmp_path / "out", model, tokenizer, str)
    ids, mask = batch(tokenizer)
    logits, real = model(ids, mask)[mask.bool()], mask.bool()
    host = theirs(tmp_path / "out")
    torch.testing.assert_close(host(ids, mask).logits[real], logits, rtol=0, atol=1e-10)
    again, _ = relpos.load(tmp_path / "out")
    torch.testing.assert_close(again(ids, mask)[real], logits, rtol=0, atol=1e-10)
    assert (config["model_type"] == "relpos") == (
        type(host).__module__ == "relpos.train.huggingface"
    )


def test_the_encoder_alone_and_its_hidden_states_are_auto_model(tokenizer, tmp_path):
    model = exported(tokenizer, tmp_path / "out", {}, "t5")
    ids, mask = batch(tokenizer)
    states = model.encoder(ids, mask, hidden_states=True)
    outputs = theirs(tmp_path / "out", "AutoModel")(ids, mask, output_hidden_states=True)
    torch.testing.assert_close(outputs.last_hidden_state, states[-1], rtol=0, atol=1e-10)
    for here, there in zip(states, outputs.hidden_states, strict=True):
        torch.testing.assert_close(there, here, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("position", "size", "kind", "architecture"),
    [
        ("absolute", WIDE, "plain", "BertForSequenceClassification"),
        ("absolute", ALBERT, "plain", "AlbertForSequenceClassification"),
        ("absolute", ALBERT | WIDE, "plain", "RelposForSequenceClassification"),
        ("absolute", WIDE, "jiant_mean", "RelposForSequenceClassification"),
        ("fixed", {}, "plain", "RelposForSequenceClassification"),
    ],
)
def test_a_classifier_leaves_with_its_labels(
    position, size, kind, architecture, tokenizer, tmp_path
):
    model = network_of(tokenizer, size, position, outputs=3, head={"classifier": kind})
    assert isinstance(model, Classifier)
    write(tmp_path / "out", model, tokenizer, str, ["no", "perhaps", "yes"])
    host = theirs(tmp_path / "out", "AutoModelForSequenceClassification")
    ids, mask = batch(tokenizer)
    torch.testing.assert_close(host(ids, mask).logits, model(ids, mask), rtol=0, atol=1e-10)
    assert type(host).__name__ == architecture
    assert host.config.id2label == {0: "no", 1: "perhaps", 2: "yes"}
    pair = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("dogs", "cats")
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]


def test_a_causal_network_predicts_the_next_token_in_transformers_with_our_loss(
    tokenizer, tmp_path
):
    model = network_of(tokenizer, {"attention": "causal"}, "composite")
    config = write(tmp_path / "out", model, tokenizer, str)
    host = theirs(tmp_path / "out", "AutoModelForCausalLM")
    host.tie_weights()
    ids, mask = batch(tokenizer)
    assert config["architectures"] == [type(host).__name__] == ["RelposForCausalLM"]
    labels = ids.masked_fill(mask == 0, -100)
    outputs = host(ids, mask, labels=labels)
    torch.testing.assert_close(
        outputs.logits[mask.bool()], model(ids, mask)[mask.bool()], rtol=0, atol=1e-10
    )
    predicted = (
        outputs.logits[:, :-1]
        .log_softmax(-1)
        .gather(2, ids[:, 1:, None])
        .squeeze(2)[mask[:, 1:].bool()]
    )
    torch.testing.assert_close(outputs.loss, -predicted.mean(), rtol=0, atol=1e-10)
    torch.testing.assert_close(outputs.loss, model.loss(ids, labels, mask), rtol=0, atol=1e-10)
    # Who scores texts pads them on the right and gives no mask.
    torch.testing.assert_close(host(ids).logits[1, :6], outputs.logits[1, :6], rtol=0, atol=1e-10)


def test_the_tokenizer_of_a_causal_network_begins_texts_and_does_not_end_them(tokenizer, tmp_path):
    exported(tokenizer, tmp_path / "out", {"attention": "causal"}, "composite")
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    beginning, whole = fast("the cat").input_ids, fast("the cat sleeps.").input_ids
    assert whole[: len(beginning)] == beginning
    assert whole == [fast.bos_token_id, *tokenizer.encode(["the cat sleeps."])[0]]
    assert (fast.bos_token_id, fast.eos_token_id) == (tokenizer.cls, tokenizer.sep)


@pytest.mark.parametrize("kind", ["bert", "albert", "roberta"])
@pytest.mark.parametrize(
    ("size", "outputs"), [(WIDE, 3), ({"token_types": 1}, 3), ({"attention": "causal"}, None)]
)
def test_a_tokenizer_of_others_leaves_with_the_special_tokens_and_types_of_its_network(
    kind, size, outputs, tmp_path
):
    theirs = load_tokenizer(published(kind, tmp_path / "published"))
    theirs.separators = 2
    exported(
        theirs, tmp_path / "out", size, "absolute", **({"outputs": outputs} if outputs else {})
    )
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    a, b = theirs.encode(["the cat", "a mat"])
    batch = collate(encode(Rows(["the cat"], ["a mat"], None), theirs), torch.arange(1))
    length = int(batch["attention_mask"].sum())
    if outputs:
        pair = fast("the cat", "a mat")
        assert pair["input_ids"] == batch["input_ids"][0, :length].tolist()
        types = (batch["token_types"] * (size.get("token_types", 2) > 1))[0, :length].tolist()
        assert pair["token_type_ids"] == types
    else:
        assert fast("the cat")["input_ids"] == [theirs.cls, *a]
        assert (fast.bos_token_id, fast.eos_token_id) == (theirs.cls, theirs.sep)
    cut = fast("the cat " * 99, truncation=True)["input_ids"]
    assert len(cut) == fast.model_max_length == SIZE["max_positions"]
    _, opened = relpos.load(tmp_path / "out")
    assert opened is not None
    assert [row.tolist() for row in opened.encode(["the cat", "a mat"])] == [a.tolist(), b.tolist()]


@pytest.mark.parametrize(
    ("attention", "auto"),
    [("causal", "AutoModelForMaskedLM"), ("bidirectional", "AutoModelForCausalLM")],
)
def test_a_network_that_would_see_other_tokens_than_expected_is_refused(
    attention, auto, tokenizer, tmp_path
):
    exported(tokenizer, tmp_path / "out", {"attention": attention}, "composite")
    with pytest.raises(RelposError, match=f"this network is {attention}"):
        theirs(tmp_path / "out", auto)


@pytest.mark.parametrize(("position", "size"), [("absolute", WIDE), ("composite", {})])
def test_the_pipeline_fills_masks_as_we_do(position, size, tokenizer, tmp_path):
    model = network_of(tokenizer, size, position)
    write(tmp_path / "out", model.float(), tokenizer, str)
    text = "the [MASK], and cats."
    answers = transformers.pipeline("fill-mask", model=str(tmp_path / "out"), top_k=3)(text)
    [guesses] = FillMask(model, tokenizer)(text, top=3)
    assert [answer["token"] for answer in answers] == [guess.id for guess in guesses]
    assert [answer["score"] for answer in answers] == pytest.approx(
        [guess.probability for guess in guesses], rel=1e-4
    )
    assert answers[0]["sequence"] == guesses[0].text


def test_config_json_holds_no_path(tokenizer, tmp_path):
    model = network_of(tokenizer, {}, "none")
    write(tmp_path / "out", model, tokenizer, lambda config: json.dumps(config))
    texts = [
        path.read_text() for path in (tmp_path / "out").iterdir() if path.suffix in (".json", ".md")
    ]
    assert all(str(tmp_path) not in text for text in texts)
