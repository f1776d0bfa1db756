"""Operations are counted as if each example had the full length; how long examples are on average is known apart."""

import pytest

import relpos
from relpos.runs import plan
from relpos.runs.cost import costs, flops_per_token, mean_length


def test_the_operations_are_those_of_all_tokens_of_all_steps() -> None:
    run = plan(relpos.compose("pretrain", ["size=tiny"]))
    tokens = run.config["steps"] * run.config["batch"] * run.config["length"]
    assert flops_per_token(run) * tokens == pytest.approx(costs(run)["flops"])
    assert costs(run.inputs["store"]) == {"flops": 0.0, "flops_per_token": 0.0}


def test_sentences_of_the_generated_language_are_short_and_text_that_is_not_read_yet_has_the_full_length() -> None:
    toy, files = (plan(relpos.compose("pretrain", ["size=tiny", f"data={name}"])) for name in ("toy", "files"))
    assert 10 < mean_length(toy) < 30
    assert mean_length(files) == files.config["length"]
