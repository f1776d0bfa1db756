"""Training with other positions than the network was trained with."""

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import torch
from omegaconf import DictConfig

import relpos
from relpos.config.compose import compose
from relpos.config.schema import Change
from relpos.errors import RelposError
from relpos.model.architecture import Architecture, HeadOptions, Size
from relpos.model.build import build
from relpos.model.position import Tisa
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.stages.change import change_positions, changed_position
from schemes import SIZE, VOCABULARY, model_of, node

IDS = torch.tensor([[5, 9, 7, 11, 6, 8]])
OVERRIDES = [
    "task=rte",
    "size.layers=2",
    "steps=1",
    "batch=4",
    "length=16",
    "speed.threads=1",
    "intermediate=none",
]
PRETRAINING = ["pretrain.steps=1", "pretrain.batch=4", "data.pairs=20"]
TISA3 = Change(tisa=3)


def tuning(*overrides: str, make: Callable[[DictConfig], Run] = plan) -> Run:
    return make(compose("finetune", [*OVERRIDES, *PRETRAINING, *overrides]))


def test_an_unchanged_network_is_the_run_that_it_was():
    assert (
        tuning("change.tisa=0", "change.start=random", "change.reused=true").identity
        == tuning().identity
    )


@pytest.mark.parametrize(
    "overrides",
    [
        ["change.positions=remove"],
        ["change.tisa=1"],
        ["change.tisa=1", "change.start=random"],
        ["head=jiant"],
        ["head=mean"],
    ],
)
def test_each_change_is_another_run(overrides):
    others = [tuning(), tuning("change.tisa=3"), tuning("change.positions=remove", "change.tisa=1")]
    assert tuning(*overrides).identity not in {run.identity for run in others}


def test_keys_that_are_not_read_are_no_part_of_the_identity():
    removed = tuning("change.positions=remove")
    assert removed.identity == tuning("change.positions=remove", "change.start=random").identity
    assert removed.name == "rte-absolute-2x64-removed-seed0"


def test_the_intermediate_task_starts_from_the_changed_network_and_the_task_from_that_one():
    run = tuning("change.tisa=3", "intermediate=mnli")
    assert "change" not in run.meaning
    assert run.inputs["start"].meaning["change"] == asdict(TISA3)


@pytest.mark.parametrize("positions", ["keep", "remove"])
@pytest.mark.parametrize("reused", [False, True])
@torch.no_grad()
def test_the_settings_describe_the_changed_network(positions, reused):
    change = replace(TISA3, positions=positions, reused=reused)
    encoder = model_of("absolute").float().eval().encoder
    change_positions(encoder, change, 12, seed=0)
    position = changed_position(node("position", "absolute"), change)
    head = HeadOptions("none")
    described = Architecture(Size(**SIZE), position, node("conv", "none"), VOCABULARY, head)
    built = build(described).eval()
    built.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(built(IDS), encoder(IDS))


def test_regression_takes_the_profiles_of_each_layer_and_random_values_those_of_the_seed():
    tables = {}
    for start, seed in (("regression", 0), ("regression", 1), ("random", 0), ("random", 1)):
        encoder = model_of("absolute").float().encoder
        change_positions(encoder, replace(TISA3, start=start, tisa=1), 12, seed)
        [tisa] = [part for part in encoder.position.modules() if isinstance(part, Tisa)]
        tables[start, seed] = tisa.amplitude.detach().clone()
    assert torch.equal(tables["regression", 0], tables["regression", 1])
    assert not torch.equal(tables["regression", 0][0], tables["regression", 0][1])
    assert not torch.equal(tables["random", 0], tables["random", 1])


def test_a_changed_network_is_fine_tuned_and_opened_again(toy_runs):
    run = tuning("change.positions=remove", "change.tisa=2", "head=jiant", make=relpos.run)
    model, _ = relpos.load(run.path)
    assert isinstance(model.encoder.position, Tisa)
    assert model.dense is not None
    overrides = [override for override in OVERRIDES if not override.startswith("size.")]
    again = relpos.run(
        compose(
            "finetune",
            [*overrides, f"network={run.path}", "seed=1", "change.tisa=1", "change.start=random"],
        )
    )
    assert len(relpos.load(again.path)[0].encoder.position.parts) == 2


def test_a_network_is_changed_before_it_is_trained_further(toy_runs):
    short = ["steps=2", "batch=4", "evaluations=1", "data.pairs=20", "speed.threads=1"]
    first = relpos.run(compose("pretrain", ["size.layers=2", *short]))
    again = [f"network={first.path}", "length=16", *short]
    fitted = relpos.run(compose("pretrain", [*again, "change.tisa=2"]))
    assert fitted.name == f"{first.path.name}+tisa2-toy-seed0"
    model, _ = relpos.load(fitted.path)
    _, tisa = model.encoder.position.parts
    profiles = relpos.load(first.path)[0].encoder
    change_positions(profiles, Change(tisa=2), 16, seed=0)
    # after two steps still near the fit, which is far from what is drawn
    kept = {name: weights.detach() for name, weights in tisa.named_parameters()}
    for name, weights in profiles.position.parts[1].named_parameters():
        torch.testing.assert_close(kept[name], weights.detach(), atol=1e-2, rtol=1e-2)
    plain = plan(compose("pretrain", [*again, "change.start=random"]))
    assert plain.identity == plan(compose("pretrain", again)).identity != fitted.identity
    with pytest.raises(RelposError, match=r"^change: which network\? network=FOLDER"):
        plan(compose("pretrain", ["change.positions=remove"]))


@pytest.mark.parametrize(
    ("position", "change", "message"),
    [
        ("fixed", Change("remove"), "change.positions=remove: fixed is no table"),
        ("none", TISA3, "change.start=regression: none has no position embeddings"),
    ],
)
def test_an_impossible_change_of_a_network_is_refused(position, change, message):
    with pytest.raises(RelposError, match=message):
        changed_position(node("position", position), change)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["position=fixed", "change.positions=remove"], r"change\.positions=remove: fixed"),
        (["size.token_types=0", "change.positions=remove"], "this network has no token types"),
        (
            ["conv=canon", "change.tisa=2"],
            "the queries and keys of this network are not linear maps",
        ),
        (["change.tisa=20"], "31 offsets are too few for the 61 parameters"),
    ],
)
def test_an_impossible_change_is_refused_before_anything_is_trained(overrides, message, toy_runs):
    with pytest.raises(RelposError, match=message):
        tuning(*overrides, make=relpos.run)
    assert not (toy_runs / "pretrain").exists()


@pytest.mark.parametrize("more", [[], ["change.tisa=1", "change.start=random"]])
def test_rates_that_do_not_fit_the_parts_are_refused_before_anything_is_trained(toy_runs, more):
    parts = 2 if more else 1
    with pytest.raises(
        RelposError, match=rf"recipe.position_lr=\[1, 2, 3\]: a list of {parts}, one for each part"
    ):
        tuning("recipe.position_lr=[1,2,3]", *more, make=relpos.run)
    with pytest.raises(
        RelposError, match=r"recipe.position_lr=\[1, 2\]: a list of 1, one for each part"
    ):
        relpos.run(compose("pretrain", ["size=tiny", "recipe.position_lr=[1,2]"]))
    assert not (toy_runs / "pretrain").exists()
