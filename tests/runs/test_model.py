"""`relpos.build` gives the network that the run trains."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import relpos
from relpos.config.compose import compose, resolved
from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.model.build import build, count, counted
from relpos.model.heads import Classifier
from relpos.ranges import parsed
from relpos.runs import training
from relpos.runs.plan import plan
from schemes import presets

TINY = ["size.layers=1", "batch=4", "length=16", "speed.threads=1", "steps=1"]


def of(*overrides: str) -> Architecture:
    return parsed(Architecture, resolved(compose("params", overrides)))


def trained_from(
    monkeypatch: pytest.MonkeyPatch, overrides: list[str], command: str
) -> tuple[dict[str, torch.Tensor], str]:
    """The weights, and the attention kernel, with which the run of these overrides begins."""
    seen: dict[str, torch.Tensor] = {}
    kernel: list[str] = []
    fit = training.fit

    def noted(run: object, module: Any, data: object) -> object:
        seen.clear()  # what the run starts from comes first
        seen.update(
            {name: value.detach().clone() for name, value in module.model.named_parameters()}
        )
        kernel.append(module.model.encoder.layers[0].attention.kernel)
        return fit(run, module, data)

    monkeypatch.setattr(training, "fit", noted)
    relpos.run(compose(command, overrides))
    return seen, kernel[-1]


@pytest.mark.parametrize("command", ["pretrain", "finetune"])
def test_the_network_is_that_of_the_run(toy_runs, monkeypatch, command):
    overrides = ["position=composite", "seed=3", "speed.kernel=eager", *TINY[-3:]]
    overrides += (
        TINY[:3]
        if command == "pretrain"
        else [
            "pretrain.batch=4",
            "pretrain.steps=1",
            "size.layers=1",
            "batch=4",
            "data.pairs=20",
        ]
    )
    weights, kernel = trained_from(monkeypatch, overrides, command)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    built = relpos.build(compose(command, overrides))
    assert torch.equal(torch.get_rng_state(), before)
    assert {name: value.shape for name, value in built.named_parameters()} == {
        name: value.shape for name, value in weights.items()
    }
    assert all(torch.equal(value, weights[name]) for name, value in built.named_parameters())
    assert built.encoder.layers[0].attention.kernel == kernel == "eager"
    assert isinstance(built, Classifier) == (command == "finetune")


def test_before_anything_is_trained_the_network_is_that_of_the_overrides():
    built = relpos.build(compose("finetune", ["task=mnli", "vocabulary=50", "size.layers=1"]))
    assert isinstance(built, Classifier)
    assert built.classifier.out_features == 3
    assert built.encoder.embedding.words.num_embeddings == 50


@pytest.mark.parametrize("command", ["data", "reproduce"])
def test_a_command_without_a_network_is_refused(command):
    with pytest.raises(
        RelposError,
        match="no network; those of pretrain, finetune, params, cost and analyze have one",
    ):
        relpos.build(compose(command, ["table=demo"] if command == "reproduce" else []))


@pytest.mark.parametrize("position", presets("position"))
def test_parameters_are_counted_without_memory(position):
    described = of("size=tiny", f"position={position}", "vocabulary=50", "size.layers=1")
    assert counted(described) == count(build(described))


@pytest.mark.parametrize(
    "overrides",
    [["size.hidden=1000000"], ["size.ffn=1000000", "size.hidden=100000", "size.layers=100"]],
)
def test_too_many_parameters_are_one_line(overrides):
    with pytest.raises(RelposError, match=r"parameters"):
        counted(of(*overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["position=rope", "size.hidden=66", "size.heads=22"], "Rope turns pairs of channels"),
        (["size.heads=5"], "hidden=64 is not a multiple of heads=5"),
        (["position=absolute", "length=512"], "Absolute has 128 positions"),
        (["size.hidden=1000000", "size.layers=10"], "parameters"),
    ],
)
def test_a_network_that_cannot_be_built_is_refused_before_any_work(overrides, message, tmp_path):
    with pytest.raises(RelposError, match=message):
        relpos.run(compose("pretrain", overrides))
    assert not (tmp_path / "runs").exists()
    assert plan(compose("pretrain", overrides)).state == "missing"


def test_any_list_of_schemes_can_be_merged():
    parts = "[{_target_: relpos.model.position.Fixed, k: 3}, {_target_: relpos.model.position.T5}]"
    merged = counted(of("size=tiny", "position=merge", f"position.parts={parts}"))
    alone = [
        counted(of("size=tiny", *overrides))
        for overrides in (["position=fixed", "k=3"], ["position=t5"])
    ]
    assert merged["position"] == sum(part["position"] for part in alone)
    with pytest.raises(RelposError, match=r"position\.parts must be given"):
        compose("params", ["position=merge"])
    with pytest.raises(
        RelposError, match=r"^position\.parts\.0\.k=-1: a whole number of 0 or more is expected$"
    ):
        compose(
            "params",
            ["position=merge", "position.parts=[{_target_: relpos.model.position.Fixed, k: -1}]"],
        )


def test_a_pre_training_of_no_steps_is_the_initial_network_and_a_start_of_fine_tunings(toy_runs):
    overrides = [*TINY[:4], "position=fixed", "seed=3"]
    run = relpos.run(compose("pretrain", [*overrides, "steps=0"]))
    kept = load_file(run.path / "model" / "model.safetensors")
    for name, value in relpos.build(compose("pretrain", overrides)).named_parameters():
        assert torch.equal(kept[name], value), name
    # nothing is known yet: about as many pieces are likely as there are
    assert run.metrics["steps"] == 0
    assert 0.8 < run.metrics["perplexity"] / run.inputs["tokenizer"].metrics["pieces"] < 1.25
    tuned = relpos.run(
        compose("finetune", ["task=rte", "intermediate=none", f"network={run.path}", *TINY[1:]])
    )
    assert tuned.metrics["steps"] == 1
