"""The papers' parameter groups and schedule."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

import relpos
from relpos.errors import RelposError
from relpos.train.optim import Recipe

unwarmed = partial(Recipe, lr=1e-3, warmup=0)


def rates(recipe: Recipe, steps: int) -> list[float]:
    optimizer = recipe.optimizer_of(nn.Linear(2, 2))
    schedule = recipe.scheduler(optimizer, steps)
    values = []
    for _ in range(steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return values


def test_warm_up_as_a_share_then_linear_to_zero():
    assert rates(Recipe(lr=1.0, warmup=0.2), 10) == pytest.approx(
        [0, 0.5, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    )


def test_warm_up_as_a_count():
    assert (
        Recipe(lr=1.0, warmup=10_000).warmup_steps(125_000)
        == Recipe(lr=1.0, warmup=0.08).warmup_steps(125_000)
        == 10_000
    )


def test_warm_up_then_constant_then_linear_to_zero():
    recipe = Recipe(lr=1.0, warmup=2, schedule="wsd", decay=0.4)
    assert recipe.decay_start(10) == 6
    assert rates(recipe, 10) == pytest.approx([0, 0.5, 1, 1, 1, 1, 1, 3 / 4, 2 / 4, 1 / 4])
    assert rates(Recipe(lr=1.0, warmup=2, schedule="wsd", decay=4), 10) == rates(recipe, 10)


@pytest.mark.parametrize(
    "recipe", [Recipe(lr=0.5, warmup=0.1), Recipe(lr=0.5, warmup=100, schedule="wsd")]
)
def test_how_far_a_parameter_may_move_is_the_sum_of_the_rates(recipe):
    assert recipe.travel(1000) == pytest.approx(sum(rates(recipe, 1000)), rel=0.01)


def test_biases_and_norms_are_exempt_from_decay_and_kernels_are_not():
    model = built("position=composite")
    decayed, exempt = (group["params"] for group in unwarmed().optimizer_of(model).param_groups)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(p)] for p in decayed} >= {
        "encoder.position.beta",
        "encoder.position.query",
        "encoder.embedding.words.weight",
    }
    assert all(names[id(p)].endswith("bias") or "norm" in names[id(p)] for p in exempt)
    assert not any("norm" in names[id(p)] or names[id(p)].endswith("bias") for p in decayed)
    assert len(decayed) + len(exempt) == len(names)


def test_one_update_is_that_of_plain_adamw():
    torch.manual_seed(0)
    ours, plain = nn.Linear(3, 2), nn.Linear(3, 2)
    plain.load_state_dict(ours.state_dict())
    recipe = Recipe(lr=0.1, warmup=0, weight_decay=0.0)
    for model, optimizer in (
        (ours, recipe.optimizer_of(ours)),
        (plain, torch.optim.AdamW(plain.parameters(), 0.1, eps=1e-6, weight_decay=0)),
    ):
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert torch.allclose(ours.weight, plain.weight)


def test_a_factor_raises_the_rate_of_scheme_and_convolution_alone():
    model, recipe = (
        built("position=absolute_composite", "conv=depthwise"),
        unwarmed(position_lr=10),
    )
    names = [name for name, _ in model.named_parameters()]
    assert rates_of(recipe, model) == dict.fromkeys(names, 1) | {
        name: 10 for name in names if ".position." in name or ".conv." in name
    }
    groups = recipe.optimizer_of(model).param_groups
    assert {group["weight_decay"] for group in groups if group["lr"] == 1e-2} == {0.01, 0.0}
    assert groups[0]["lr"] == 1e-3  # the rate that is logged


def built(*overrides: str) -> nn.Module:
    return relpos.build(relpos.compose("params", ["size=tiny", *overrides]))


def rates_of(recipe: Recipe, model: nn.Module) -> dict[str, float]:
    """Parameter → the factor of its learning rate."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = recipe.optimizer_of(model).param_groups
    return {
        names[id(parameter)]: group["lr"] / recipe.lr
        for group in groups
        for parameter in group["params"]
    }


LISTED = "position.layers=[{_target_: relpos.model.position.Fixed}, {_target_: relpos.model.position.T5}]"


@pytest.mark.parametrize("overrides", [["position=absolute_tisa"], ["position=layers", LISTED]])
def test_each_part_of_a_merge_or_of_a_list_by_layers_may_have_a_factor_of_its_own(overrides):
    rates = rates_of(
        unwarmed(position_lr=[2, 30], conv_lr=3),
        built(*overrides, "conv=depthwise"),
    )
    for name, rate in rates.items():
        assert rate == pytest.approx(
            2 if ".parts.0" in name else 30 if ".parts.1" in name else 3 if ".conv." in name else 1
        )
    assert len(set(rates.values())) == 4


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["position=tisa"], "a list of 1, one for each part of the scheme, is expected"),
        (["position=absolute_tisa"], "a list of 2, one for each part of the scheme, is expected"),
        (
            [
                "position=merge",
                "position.parts=["
                + ", ".join(["{_target_: relpos.model.position.Fixed}"] * 3)
                + "]",
                "conv=qk",
            ],
            "the convolution needs a rate of its own, recipe.conv_lr",
        ),
    ],
)
def test_factors_that_do_not_fit_the_parts_are_refused_in_one_line(overrides, message):
    with pytest.raises(RelposError) as error:
        rates_of(unwarmed(position_lr=[1, 2, 3]), built(*overrides))
    assert str(error.value) == f"recipe.position_lr=[1, 2, 3]: {message}"


def test_a_convolution_may_have_a_factor_of_its_own():
    model = built("position=absolute_composite", "conv=depthwise")
    for name, rate in rates_of(unwarmed(position_lr=30, conv_lr=3), model).items():
        assert rate == pytest.approx(30 if ".position." in name else 3 if ".conv." in name else 1)
    for name, rate in rates_of(unwarmed(conv_lr=3), model).items():
        assert rate == pytest.approx(3 if ".conv." in name else 1)
    alike, common = (
        unwarmed(position_lr=3, conv_lr=3),
        unwarmed(position_lr=3),
    )
    assert alike.optimizer_of(model).state_dict() == common.optimizer_of(model).state_dict()


def test_muon_moves_the_matrices_of_the_layers_and_adamw_the_rest():
    model = built("position=composite", "conv=depthwise", "block=modern").train()
    recipe = Recipe(lr=1e-2, warmup=0, position_lr=10, optimizer="muon")
    optimizer = recipe.optimizer_of(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [
        {names[id(parameter)] for parameter in group["params"]} for group in optimizer.param_groups
    ]
    assert sum(map(len, groups)) == len(set().union(*groups)) == len(names)
    kinds = ("attention.project", "attention.output", "widen", "narrow")
    assert groups[0] == {
        f"encoder.layers.{number}.{kind}.weight" for number in range(2) for kind in kinds
    }
    faster = {
        name
        for group, own in zip(optimizer.param_groups, groups, strict=True)
        if group["lr"] == 0.1
        for name in own
    }
    assert faster == {name for name in names.values() if ".position." in name or ".conv." in name}


def test_muon_and_adamw_in_one_optimiser_update_like_torchs_two():
    model = built("block=modern").eval()
    twin = copy.deepcopy(model)
    recipe = Recipe(lr=1e-2, warmup=0, weight_decay=0.1, optimizer="muon")
    matrices = recipe.matrices(twin)
    rest = [p for p in twin.parameters() if all(p is not matrix for matrix in matrices)]
    exempt = {
        id(p) for name, p in twin.named_parameters() if "norm" in name or name.endswith("bias")
    }
    groups = [
        {"params": [p for p in rest if (id(p) in exempt) == free], "weight_decay": 0.1 * (not free)}
        for free in (False, True)
    ]
    pair = (
        torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups, lr=1e-2, eps=1e-6, fused=True),
    )
    joint = recipe.optimizer_of(model)
    for number in range(3):
        ids, labels = torch.randint(5, 99, (2, 9)), torch.full((2, 9), 7 + number)
        if number == 2:  # as after a resume
            state, joint = copy.deepcopy(joint.state_dict()), recipe.optimizer_of(model)
            joint.load_state_dict(state)
        for network, optimizers in ((model, (joint,)), (twin, pair)):
            network.zero_grad()
            network.loss(ids, labels).backward()
            for optimizer in optimizers:
                optimizer.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_without_linear_maps_of_layers_there_is_adamw_alone():
    assert isinstance(
        Recipe(lr=1.0, warmup=0, optimizer="muon").optimizer_of(nn.Linear(2, 2)), torch.optim.AdamW
    )
