"""`relpos cost`: the figures, counted and measured."""

import json
from typing import Any

import pytest

import relpos
from relpos.config.compose import called, composed, resolved
from relpos.model.architecture import Size
from relpos.runs.cost import Estimate, costs, forward
from relpos.runs.plan import plan

TINY = ["size=tiny", "vocabulary=40", "batch=2", "length=8", "steps=5"]


def cost(*overrides: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(called("cost", [*TINY, *overrides]))
    return content


def test_without_a_measurement_operations_are_counted():
    content = cost("seconds=0")
    run = plan(relpos.compose("pretrain", TINY))
    assert content["operations"] == pytest.approx(costs(run)["flops"])
    assert content["parameters"] == json.loads(called("params", TINY[:2]))["total"]
    assert "seconds" not in content


def test_a_step_is_measured_and_the_time_of_all_steps_is_predicted():
    speed = ["speed.microbatch=1", "speed.accelerator=cpu", "speed.threads=1"]
    content = cost("seconds=0.01", *speed)
    assert content["seconds"] == pytest.approx(5 * content["step_seconds"])
    assert content["operations"] == pytest.approx(
        content["operations_per_second"] * content["seconds"]
    )
    assert (content["microbatch"], content["device"]) == (1, "CPU, 1 threads")
    # plans read the rate
    assert Estimate().rate("pretrain") == pytest.approx(content["operations_per_second"])
    assert content["peak_memory_bytes"] > 2**20


@pytest.mark.parametrize(
    ("overrides", "share"),
    [
        ([], 0.15),
        (["recipe.masking=0.3"], 0.3),
        (["recipe.masking=[0.3,0.1]"], 0.2),
        (["recipe.masking=diffusion"], 0.5),
        (["size.attention=causal"], 1.0),
    ],
)
def test_the_head_computes_what_is_predicted(overrides, share):
    content = cost(*overrides, "seconds=0")
    size = Size(**resolved(composed("cost", TINY))["size"])
    head = 2 * size.embedding * (size.hidden + 40)
    assert content["operations_per_token"] == pytest.approx(3 * (forward(size, 8) + share * head))
    run = plan(relpos.compose("pretrain", [*TINY, *overrides]))
    assert costs(run)["flops_per_token"] == pytest.approx(content["operations_per_token"])


def test_an_objective_of_the_users_own_says_what_the_head_computes(tmp_path, monkeypatch):
    code = "from relpos.data.objective import Diffused\n\n\nclass All(Diffused):\n    masking, expected = None, 1.0\n"
    (tmp_path / "objective_of_all.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RELPOS_TRUST", "objective_of_all")
    run = plan(
        relpos.compose(
            "pretrain", [*TINY, "objective=diffusion", "objective._target_=objective_of_all.All"]
        )
    )
    assert costs(run)["flops_per_token"] == pytest.approx(
        3 * forward(Size(**run.meaning["size"]), 8, 40, predicted=1.0)
    )
