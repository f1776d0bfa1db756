"""Recorded passes of a fine-tuning, with plain calls in the place of CUDA graphs: the gradients of
plain ones, in few shapes."""

import shutil
from contextlib import nullcontext
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

import relpos
from glue_tasks import task
from relpos.data.task_batches import Encoded, TuningSteps
from relpos.model.heads import Classifier, ClassifierKind
from relpos.runs import training
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.shelf import logged
from relpos.train.finetune import Finetuning
from relpos.train.optim import Recipe
from relpos.train.recorded import RecordedSteps, Recorder
from schemes import VOCABULARY, model_of
from waiting import Refused

CLASSES = torch.arange(200) % 3


def encoded(labels: Tensor, mean: float = 10.0, length: int = 64) -> Encoded:
    """Rows of about `mean` tokens, as different as those of a task."""
    random = np.random.default_rng(0)
    sizes = np.minimum(
        np.exp(random.normal(np.log(mean), 0.5, len(labels))).astype(int) + 3, length
    )
    ids = [random.integers(5, VOCABULARY, size).astype(np.int32) for size in sizes]
    return Encoded(ids, [5 for _ in sizes], labels, 0, length)


def classifier(
    labels: int, kind: ClassifierKind = "plain", position: str = "composite", conv: str = "none"
) -> Classifier:
    encoder = model_of(position, conv, max_positions=64).encoder
    torch.manual_seed(0)
    return Classifier(encoder, labels, kind=kind).double().train()


def tuning(model: Classifier) -> Any:
    module: Any = Finetuning(task("mnli"), model, Recipe(lr=1e-3, warmup=0), 20, 3, "fp32", 1)
    module.manual_backward = torch.Tensor.backward  # without a trainer
    return module


def check_steps(model: Classifier, data: Encoded, microbatch: int, *indices: int) -> None:
    """A recorded step has the sums and gradients of a plain one."""
    plain, recorded = tuning(model), tuning(model)
    steps = RecordedSteps(recorded, Recorder(), recorded.recipe.optimizer_of(model))
    # 200 rows are seven batches of 29, the last one of 26.
    plain_data, recorded_data = (
        list(TuningSteps(data, 3, 29, 14, microbatch, few_shapes=few)) for few in (False, True)
    )
    for index in indices:
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        sums = plain.gradients(index, plain_data[index].microbatches, plain_data[index].rows)
        expected = [float(sum(column)) for column in zip(*sums, strict=True)]
        wanted = [p.grad for p in model.parameters()]
        model.zero_grad()
        sums, rows = steps.sums(index, recorded_data[index].microbatches), recorded_data[index].rows
        gradients = [
            steps.gradients.get(name, torch.zeros_like(p)) / rows
            for name, p in model.named_parameters()
        ]
        # The loss of both is computed in float32.
        torch.testing.assert_close(gradients, wanted, atol=1e-7, rtol=1e-5)
        assert [*map(float, sums)] == pytest.approx(expected, rel=1e-6)
        torch._foreach_zero_([*steps.gradients.values()])


@pytest.mark.parametrize("kind", get_args(ClassifierKind))
@pytest.mark.parametrize("labels", [CLASSES, CLASSES.float()], ids=["classes", "scores"])
def test_a_recorded_fine_tuning_has_the_gradients_of_a_plain_one(kind, labels):
    check_steps(
        classifier(1 if labels.is_floating_point() else 3, kind), encoded(labels), 32, 0, 6, 13
    )


@pytest.mark.parametrize(
    ("position", "conv"), [("absolute", "canon"), ("rope", "qkv"), ("none", "convbert")]
)
@pytest.mark.parametrize("microbatch", [3, pytest.param(32, marks=pytest.mark.full)])
def test_gradients_agree_with_neighbours_and_in_several_passes(position, conv, microbatch):
    check_steps(classifier(3, "plain", position, conv), encoded(CLASSES), microbatch, 6)


def test_a_step_sums_losses_and_hits_and_of_a_regression_squared_errors():
    module = tuning(classifier(3))
    for outputs, labels, wanted in (
        (
            [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]],
            [0, 1, 0, 2],
            (9.0, 3),
        ),
        ([[1.0], [2.0]], [3.0, 2.5], (4.25, 4.25)),
    ):
        module.model.forward = lambda *inputs, outputs=outputs: torch.tensor(outputs)
        batch = dict.fromkeys(("input_ids", "attention_mask", "token_types")) | {
            "labels": torch.tensor(labels)
        }
        assert [float(value) for value in module(batch)] == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("kind", get_args(ClassifierKind))
def test_a_replayed_fine_tuning_waits_for_nothing(kind):
    module = tuning(classifier(3, kind))
    recorded = RecordedSteps(module, Recorder(), module.recipe.optimizer_of(module.model))
    first = next(iter(TuningSteps(encoded(CLASSES), 3, 29, 1, 32, few_shapes=True)))
    for attempt in (nullcontext(), Refused()):
        with attempt:
            recorded.sums(0, first.microbatches)
            recorded.update(first.rows)


def test_a_fine_tuning_with_recorded_passes_learns_what_a_plain_one_does(
    toy_runs, model_folder, monkeypatch
):
    overrides = [
        "task=rte",
        "intermediate=none",
        f"network={model_folder}",
        "steps=4",
        "batch=8",
        "log_every=1",
    ]
    run = plan(relpos.compose("finetune", overrides))
    lines = []
    for recorder in (None, Recorder):
        monkeypatch.setattr(training, "recorder_of", lambda *_, recorder=recorder: recorder)
        shutil.rmtree(run.path, ignore_errors=True)
        execute(run)
        assert run.record["starts"][-1]["recorded"] == (recorder is not None)
        lines.append([line for line in logged(run.path) if "accuracy" in line])
    for plain, recorded in zip(*lines, strict=True):
        assert recorded["loss"] == pytest.approx(plain["loss"], rel=1e-4)
        assert recorded["accuracy"] == plain["accuracy"]
    assert len(lines[0]) == 4
