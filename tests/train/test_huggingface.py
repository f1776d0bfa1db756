"""Our classes in the hands of transformers: values as BERT's, missing weights as a new network's,
what is not known refused."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import relpos
from relpos.errors import RelposError
from relpos.model.heads import Classifier
from schemes import SIZE, node

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

VOCABULARY = 99
IDS = torch.randint(5, VOCABULARY, (4, 9), generator=torch.Generator().manual_seed(1))
MASK = torch.ones_like(IDS).index_put(
    (torch.tensor([1, 1, 1]), torch.tensor([6, 7, 8])), torch.tensor(0)
)
HEADS = ("MaskedLM", "SequenceClassification")


def config(
    position: str = "composite", conv: str = "none", size: dict[str, Any] | None = None, **more: Any
) -> Any:
    settings = {
        "size": SIZE | (size or {}),
        "position": node("position", position),
        "conv": node("conv", conv),
    }
    return transformers.AutoConfig.for_model("relpos", **settings, vocabulary=VOCABULARY, **more)


def model_of(head: str = "MaskedLM", **more: Any) -> Any:
    torch.manual_seed(0)
    return auto(head).from_config(config(**more)).eval()


def auto(head: str) -> Any:
    return getattr(transformers, f"AutoModelFor{head}" if head else "AutoModel")


class Given(nn.Module):
    """Gives the same logits whatever comes in: what a class of BERT computes of them is its
    loss."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x: Tensor) -> Tensor:
        return self.logits


def of_bert(head: str, part: str, logits: Tensor, labels: dict[str, Tensor], **more: Any) -> Tensor:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    theirs = getattr(transformers, f"BertFor{head}")(
        transformers.BertConfig(vocab_size=VOCABULARY, **sizes, **more)
    )
    setattr(theirs, part, Given(logits))
    loss: Tensor = theirs(IDS, **labels).loss
    return loss


@pytest.mark.parametrize(
    ("outputs", "kind", "labels"),
    [
        (1, None, torch.tensor([0.5, -1.0, 2.0, 0.0])),
        (1, None, torch.tensor([[0.5], [-1.0], [2.0], [0.0]])),
        (1, "regression", torch.tensor([0.5, -1.0, 2.0, 0.0])),
        (3, "regression", torch.arange(12.0).view(4, 3)),
        (3, None, torch.tensor([0, 2, 1, 1])),
        (3, "single_label_classification", torch.tensor([[0], [2], [1], [1]])),
        (3, None, torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]])),
        (
            3,
            "multi_label_classification",
            torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]),
        ),
    ],
)
def test_the_loss_of_every_kind_of_problem_is_that_of_bert(outputs, kind, labels):
    model = model_of("SequenceClassification", num_labels=outputs, problem_type=kind)
    answer = model(IDS, MASK, labels=labels)
    expected = of_bert(
        "SequenceClassification",
        "classifier",
        answer.logits,
        {"labels": labels},
        num_labels=outputs,
        problem_type=kind,
    )
    assert torch.equal(answer.loss, expected)
    assert model.config.problem_type is not None


@pytest.mark.parametrize("shape", [(4, 9), (36,)])
def test_the_loss_of_masked_tokens_is_that_of_bert(shape):
    labels = torch.where(torch.arange(36) % 3 == 0, -100, torch.arange(36) % 5).view(shape)
    answer = model_of()(IDS, MASK, labels=labels)
    assert torch.equal(answer.loss, of_bert("MaskedLM", "cls", answer.logits, {"labels": labels}))


@pytest.mark.parametrize("head", ["SequenceClassification", "MaskedLM"])
def test_a_step_in_four_passes_has_the_gradient_of_one(head):
    whole, parts = model_of(head, num_labels=2), model_of(head, num_labels=2)
    labels = IDS if head == "MaskedLM" else torch.tensor([0, 1, 1, 0])
    whole(IDS, labels=labels).loss.backward()
    for row in range(4):
        (parts(IDS[row : row + 1], labels=labels[row : row + 1]).loss / 4).backward()
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert not whole.accepts_loss_kwargs  # Trainer then divides by the number of passes


@pytest.mark.parametrize("head", ["", *HEADS])
@pytest.mark.parametrize(
    "name",
    [
        "position_ids",
        "num_items_in_batch",
        "past_key_values",
        "use_cache",
        "head_mask",
        "outptu_attentions",
    ],
)
def test_unknown_arguments_are_refused_by_name(head, name):
    with pytest.raises(TypeError, match=name):
        model_of(head)(IDS, **{name: torch.arange(9)[None]})


def test_inputs_are_ids_or_vectors_and_a_mask_of_tokens():
    model = model_of(position="rope", conv="canon")
    vectors = model.get_input_embeddings()(IDS)
    torch.testing.assert_close(
        model(inputs_embeds=vectors, attention_mask=MASK).logits, model(IDS, MASK).logits
    )
    for given in ({}, {"input_ids": IDS, "inputs_embeds": vectors}):
        with pytest.raises(RelposError, match="exactly one of input_ids or inputs_embeds"):
            model(**given)
    with pytest.raises(RelposError, match="attention_mask has 4 axes"):
        model(IDS, MASK[:, None, None])


@pytest.mark.parametrize("head", ["", *HEADS])
def test_outputs_are_those_that_are_asked_for(head):
    model = model_of(head)
    assert isinstance(model(IDS, return_dict=False), tuple)
    given = model(IDS, output_attentions=True, output_hidden_states=True)
    layers = model.config.num_hidden_layers
    assert (len(given.attentions), len(given.hidden_states)) == (layers, layers + 1)
    assert model(IDS).attentions is None
    assert model(IDS).hidden_states is None
    model.config.output_hidden_states = model.config.output_attentions = True
    assert len(model(IDS).hidden_states) == layers + 1
    assert len(model(IDS, output_hidden_states=False).attentions) == layers


@pytest.mark.parametrize(
    "position", ["absolute", "composite", "shaw", "dual_triangle_split", "window"]
)
def test_attention_maps_are_what_the_values_are_weighed_with(position):
    model = model_of(position=position)
    answer = model(IDS, MASK, output_attentions=True)
    torch.testing.assert_close(
        answer.logits[MASK.bool()], model(IDS, MASK).logits[MASK.bool()], atol=1e-5, rtol=1e-5
    )
    for weights in answer.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        assert not weights[1, :, :6, 6:].any()


def test_a_network_without_scores_has_no_attention_maps():
    with pytest.raises(RelposError, match="output_attentions: no head of this network has scores"):
        model_of(position="none", conv="lightconv")(IDS, output_attentions=True)


def test_a_larger_vocabulary_keeps_the_logits_and_opens_here(tmp_path):
    for tied in (True, False):
        model = model_of(head="MaskedLM") if tied else auto("MaskedLM").from_config(untied()).eval()
        torch.nn.init.normal_(model.head.bias)
        before = model(IDS).logits
        model.resize_token_embeddings(VOCABULARY + 5, mean_resizing=False)
        linear = model.get_output_embeddings()
        assert (linear.weight.shape[0], len(linear.bias), model.config.vocab_size) == (
            VOCABULARY + 5,
        ) * 3
        after = model(IDS).logits
        torch.testing.assert_close(after[..., :VOCABULARY], before)
        model.save_pretrained(tmp_path / str(tied))
        again, _ = relpos.load(tmp_path / str(tied))
        torch.testing.assert_close(again(IDS), after)
        model.resize_token_embeddings(VOCABULARY)
        torch.testing.assert_close(model(IDS).logits, before)


def untied() -> Any:
    given = config()
    given.tie_word_embeddings = False
    assert given.settings()["head"] == {"tied": False}
    return given


@pytest.mark.parametrize("reentrant", [True, False])
def test_activations_that_are_computed_again_give_the_same_gradients(reentrant):
    grads = []
    for again in (False, True):
        model = model_of(position="composite", conv="canon").train()
        if again:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.enable_input_require_grads()
        torch.manual_seed(5)
        model(IDS, MASK, labels=IDS).loss.backward()
        grads.append([part.grad for part in model.parameters()])
    assert model.is_gradient_checkpointing
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("position", ["absolute", "composite", "rope", "dual_triangle"])
@pytest.mark.parametrize("kernel", ["auto", "eager"])
def test_in_half_precision_a_mask_hides_padding(position, kernel):
    model = model_of(position=position)
    for layer in model.encoder.layers:
        layer.attention.kernel = kernel
    logits = model(IDS, MASK).logits
    half = model.half()
    torch.testing.assert_close(half(IDS, MASK).logits.float(), logits, atol=5e-3, rtol=1e-2)
    other = IDS.masked_fill(MASK == 0, 7)
    assert torch.equal(half(other, MASK).logits[MASK.bool()], half(IDS, MASK).logits[MASK.bool()])
    assert half(IDS, MASK * 0).logits.isfinite().all()


MISSING = [
    ("", "composite", "canon"),
    ("MaskedLM", "tisa", "none"),
    ("MaskedLM", "composite", "inkling"),
    ("MaskedLM", "kerple", "depthwise"),
    ("MaskedLM", "none", "lightconv"),
    ("MaskedLM", "floater", "none"),
    ("SequenceClassification", "tupe", "none"),
    ("SequenceClassification", "fire", "convbert"),
    ("MaskedLM", "shaw", "qk"),
]


@pytest.mark.parametrize(("head", "position", "conv"), MISSING)
def test_parameters_that_a_folder_lacks_are_drawn_as_in_a_new_network(
    head, position, conv, tmp_path
):
    saved = model_of(head, position=position, conv=conv)
    with torch.no_grad():
        for parameter in saved.parameters():
            parameter.fill_(7.0)
    saved.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    order = torch.randperm(len(weights), generator=torch.Generator().manual_seed(3)).tolist()
    kept = {name: weights[name] for name in (sorted(weights)[place] for place in order[::2])}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    torch.manual_seed(11)
    opened = dict(auto(head).from_pretrained(tmp_path).named_parameters())
    torch.manual_seed(11)
    new = dict(auto(head).from_config(saved.config).named_parameters())
    assert opened.keys() == new.keys() > kept.keys()
    for name, value in opened.items():
        assert torch.equal(value, kept.get(name, new[name])), name


def test_what_transformers_makes_of_a_pretraining_opens_here(tmp_path):
    model_of().save_pretrained(tmp_path / "saved")
    for number, more in enumerate(({"num_labels": 3}, {}, {"num_labels": 1})):
        theirs = auto("SequenceClassification").from_pretrained(tmp_path / "saved", **more).eval()
        theirs.save_pretrained(tmp_path / f"classifier{number}", max_shard_size="2KB")
        ours, tokenizer = relpos.load(tmp_path / f"classifier{number}")
        assert isinstance(ours, Classifier)
        assert tokenizer is None
        torch.testing.assert_close(ours(IDS, MASK), theirs(IDS, MASK).logits)
    assert len(list((tmp_path / "classifier0").glob("*.safetensors"))) > 1
    encoder = auto("").from_pretrained(tmp_path / "classifier0").eval()
    encoder.save_pretrained(tmp_path / "encoder")
    ours, _ = relpos.load(tmp_path / "encoder")
    torch.testing.assert_close(ours(IDS, MASK), encoder(IDS, MASK).last_hidden_state)
    back = auto("SequenceClassification").from_pretrained(tmp_path / "encoder").encoder.eval()
    torch.testing.assert_close(back(IDS, MASK).last_hidden_state, ours(IDS, MASK))


def test_the_configuration_has_the_names_of_transformers(tmp_path):
    given = config()
    names = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    )
    assert [getattr(given, name) for name in names] == [
        SIZE[key] for key in ("hidden", "layers", "heads", "ffn", "max_positions")
    ]
    given.num_hidden_layers = 1
    assert len(auto("").from_config(given).layers) == 1
    given.save_pretrained(tmp_path)
    assert transformers.AutoConfig.from_pretrained(tmp_path).size == SIZE | {"layers": 1}


COMPILED = """
import torch, relpos
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification
ids, mask = torch.randint(5, 99, (2, 9)), torch.ones(2, 9, dtype=torch.long)
mask[1, 6:] = 0
for scheme, auto in (("composite", AutoModelForMaskedLM), ("rope", AutoModelForSequenceClassification)):
    cfg = relpos.compose("params", ["size=tiny", "size.layers=1", f"position={scheme}"])  # a second one is the same program
    config = AutoConfig.for_model("relpos", size=dict(cfg.size), position=dict(cfg.position), conv=dict(cfg.conv), vocabulary=99)
    model = auto.from_config(config).eval()
    axes = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("n", min=2, max=128)}
    given = {"input_ids": ids, "attention_mask": mask}
    program = torch.export.export(model, (), given, dynamic_shapes={name: axes for name in given}).module()
    more = torch.randint(5, 99, (3, 12))
    answer = program(input_ids=more, attention_mask=torch.ones_like(more)).logits
    torch.testing.assert_close(answer, model(more).logits)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, mask).logits, model(ids, mask).logits)
    model.train()
    compiled(ids, mask, labels=ids if auto is AutoModelForMaskedLM else ids[:, 0] % 2).loss.backward()
    assert all(part.grad is not None for part in model.parameters())
"""


@pytest.mark.full
def test_networks_compile_as_one_graph_and_as_a_program_for_texts_of_any_size():
    """In a process of its own: here annotations are checked, which a compiler would have to
    understand."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_network_is_pickled():
    model = model_of()
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(IDS).logits, model(IDS).logits)
    assert torch.equal(copy.deepcopy(model)(IDS).logits, model(IDS).logits)
