"""Operations are counted as if each example had the full length; how long examples are on average is known apart."""

from pathlib import Path

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


def test_a_training_that_goes_on_with_a_network_costs_what_it_cost(toy_runs: Path) -> None:
    dials = ["steps=2", "batch=4", "evaluations=1", "data.pairs=64"]
    first = relpos.run(relpos.compose("pretrain", ["size=tiny", "size.layers=1", *dials]))
    second = plan(relpos.compose("pretrain", [f"network={first.path}", *dials]))
    asked, pieces = (run.inputs["tokenizer"].config["vocabulary"] for run in (first, second))
    assert asked > pieces  # of which the network on disk knows
    ours, theirs = costs(second)["flops"], costs(first)["flops"]
    assert 0 < ours < theirs
    assert 10 < mean_length(second) < 30
