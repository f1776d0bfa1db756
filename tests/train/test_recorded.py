"""Recorded steps, with plain calls in the place of CUDA graphs: the same gradients, drawn anew each
step, and nothing waits."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

import relpos
from interrupted import interrupt
from relpos.data.objective import Masked, Objective, diffused, masked, next_tokens
from relpos.data.passes import outputs
from relpos.data.steps import Steps
from relpos.data.store import Store
from relpos.model.heads import MaskedLM
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.train.optim import Recipe
from relpos.train.prefetch import Prefetched
from relpos.train.pretrain import Pretraining
from relpos.train.recorded import TOLERANCE, CudaGraphs, Inputs, RecordedSteps, Recorder, Replay
from schemes import FULL, sampled
from waiting import Refused


def network(position: str = "composite", conv: str = "none", *more: str) -> MaskedLM:
    torch.manual_seed(0)
    overrides = ["size=tiny", f"position={position}", f"conv={conv}", "vocabulary=232", *more]
    model: MaskedLM = relpos.build(relpos.compose("params", overrides))
    return model.double().train()


def steps(
    prepared: Path,
    masks: Objective = masked,
    batch: int = 8,
    microbatch: int = 8,
    packing: str = "pair",
    few: bool = True,
) -> Steps:
    examples = Store(next((prepared / "store").iterdir())).examples("train", packing, 128, 500)
    return Steps(examples, 3, batch, microbatch, 232, objective=masks, few_shapes=few)


def training(
    model: MaskedLM, precision: str = "fp32", recorder: type[Any] | None = Recorder
) -> Any:
    module: Any = Pretraining(
        model, Recipe(lr=1e-3, warmup=0), steps=10, seed=3, precision=precision, log_every=10
    )
    module.manual_backward = torch.Tensor.backward  # without a trainer
    module.recorded = (
        RecordedSteps(module, recorder(), module.recipe.optimizer_of(model)) if recorder else None
    )
    return module


def passes(data: Steps, index: int) -> list[Inputs]:
    return [part.inputs for part in data.step(index).microbatches]


def check_steps(model: MaskedLM, prepared: Path, *indices: int, **changed: Any) -> None:
    """A recorded step has the sums and gradients of a plain one."""
    plain, recorded = training(model, recorder=None), training(model)
    plain_data, recorded_data = (steps(prepared, few=few, **changed) for few in (False, True))
    for index in indices:
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        chosen = plain_data.step(index).chosen
        expected = [
            sum(column)
            for column in zip(
                *plain.gradients(index, passes(plain_data, index), chosen), strict=True
            )
        ]
        wanted = [p.grad for p in model.parameters()]
        model.zero_grad()
        loss, correct = recorded.recorded.sums(index, passes(recorded_data, index))
        grads = recorded.recorded.gradients
        gradients = [
            grads.get(name, torch.zeros_like(p)) / chosen for name, p in model.named_parameters()
        ]
        torch.testing.assert_close(gradients, wanted, atol=1e-10, rtol=1e-8)
        torch._foreach_zero_([*grads.values()])
        assert (float(loss), float(correct)) == pytest.approx(tuple(map(float, expected)))
        assert recorded_data.step(index).chosen == pytest.approx(chosen)


SCHEMES = [
    "composite",
    "selective_rope",
    "shaw",
    "absolute",
    "cope",
    "synthesizer_dense",
    "modernbert",
]
CONVS = ["qkv", "depthwise", "convbert", "lightconv", "canon", "kv_shift"]
PASSES = [(1, "pair"), (7, "document"), (12, "document")] if FULL else [(12, "document")]


@pytest.mark.parametrize(
    ("position", "conv"),
    [
        *((name, "none") for name in sampled(SCHEMES)),
        *(("none", name) for name in sampled(CONVS)),
        ("fixed", "convbert"),
    ],
)
def test_a_recorded_step_has_the_gradients_of_a_plain_one(prepared, position, conv):
    assert all("held" in part for part in passes(steps(prepared), 2))
    check_steps(network(position, conv), prepared, 2, 5)


@pytest.mark.parametrize(("microbatch", "packing"), PASSES)
def test_a_recorded_step_of_several_passes_has_the_gradients_of_a_plain_one(
    prepared, microbatch, packing
):
    check_steps(
        network("none", "canon"), prepared, 2, batch=24, microbatch=microbatch, packing=packing
    )


@pytest.mark.parametrize("masks", [Masked(0.3, 0.3), Masked(0.1, 0.6, 10), diffused])
def test_a_recorded_step_has_the_masks_of_a_plain_one(prepared, masks):
    check_steps(network("none"), prepared, 0, 9, masks=masks)


def test_a_causal_network_predicts_next_tokens_in_recorded_passes(prepared):
    check_steps(network("rope", "none", "size.attention=causal"), prepared, 0, masks=next_tokens)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_graphs_give_the_gradients_of_plain_calls_and_the_same_bits_each_time(prepared):
    data, weights = steps(prepared), []
    for recorder in (Recorder, CudaGraphs, CudaGraphs):
        model = network().float().cuda()
        module = training(model, "bf16", recorder)
        for index in (0, 1):  # the second is another replay of the same graphs, at another rate
            for group in module.recorded.optimizer.param_groups:
                group["lr"] = 1e-3 * (1 + index)
            module.recorded.sums(index, passes(data, index))
            module.recorded.update(1000.0)
        assert module.recorded.passes.trusted
        assert module.recorded.updates.trusted
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert float((weights[1] - weights[0]).norm() / weights[0].norm()) < 1e-3
    assert torch.equal(weights[1], weights[2])


def test_a_recorded_update_reads_its_rates_where_a_replay_finds_them(prepared):
    """A number would be part of the recording: all later updates would have the rate of the
    first."""
    module, step = training(network()), passes(steps(prepared), 0)
    optimizer, seen = module.recorded.optimizer, []
    call = optimizer.step
    optimizer.step = lambda: (
        seen.append([group["lr"] for group in optimizer.param_groups]),
        call(),
    )
    for rate in (0.0, 1e-3):
        for group in optimizer.param_groups:
            group["lr"] = rate
        module.recorded.sums(0, step)
        module.recorded.update(1000.0)
        assert all(
            isinstance(value, Tensor) and float(value) == pytest.approx(rate) for value in seen[-1]
        )
        assert [group["lr"] for group in optimizer.param_groups] == [rate] * len(
            optimizer.param_groups
        )
    assert len({value.data_ptr() for rates in seen[-2:] for value in rates}) == len(seen[-1])


def test_a_replay_waits_for_nothing(prepared):
    module, step = training(network(), "bf16"), passes(steps(prepared), 0)
    for attempt in (nullcontext(), Refused()):
        with attempt:
            module.recorded.sums(0, step)
            module.recorded.update(1000.0)


def test_a_replay_draws_new_dropout_each_step(prepared):
    module, step = training(network()), passes(steps(prepared), 0)
    losses = [float(module.recorded.sums(index, step)[0]) for index in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs take the path of a GPU, where a recording writes to tensors where they lay when it was
    made."""
    monkeypatch.setattr("relpos.runs.training.recorder_of", lambda *_: Recorder)
    call = Replay.__call__

    def in_place(self: Replay, inputs: Inputs) -> tuple[Tensor, ...]:
        before = self.changed() if self.recordings else None
        outputs = call(self, inputs)
        after = self.changed()
        assert before is None or all(after[name] is value for name, value in before.items())
        return outputs

    monkeypatch.setattr(Replay, "__call__", in_place)


OVERRIDES = [
    "steps=3",
    "batch=8",
    "log_every=1",
    "evaluations=3",
    "data.pairs=64",
    "checkpoint_every=1",
]


def anew(run: Run) -> dict[str, Any]:
    """Its final metrics, trained from the start."""
    shutil.rmtree(run.path, ignore_errors=True)
    execute(run)
    metrics: dict[str, Any] = run.record["metrics"]
    return metrics


PHASES = ["packing=document", "length=64", "first.share=0.6", "first.length=16", "first.batch=12"]


@pytest.mark.filterwarnings("error:steps are not recorded")
@pytest.mark.parametrize(
    "more", [[], PHASES, ["recipe.optimizer=muon"]], ids=["one phase", "two phases", "muon"]
)
def test_a_run_with_recorded_passes_learns_what_a_plain_one_does(toy_runs, request, more):
    run = plan(relpos.compose("pretrain", [*OVERRIDES, *more]))
    plain = anew(run)
    request.getfixturevalue("recording")
    recorded = anew(run)
    assert run.record["starts"][-1]["recorded"]
    assert recorded["heldout_loss"] == pytest.approx(plain["heldout_loss"], rel=1e-5)


def test_a_run_with_recorded_passes_goes_on_bit_for_bit(toy_runs, recording):
    run = plan(relpos.compose("pretrain", OVERRIDES))
    whole = anew(run)
    shutil.rmtree(run.path)
    interrupt(run, 2)
    execute(run)
    assert [start["from_step"] for start in run.record["starts"]] == [0, 2]
    assert run.record["metrics"]["heldout_loss"] == whole["heldout_loss"]


CPU = torch.device("cpu")


class Summed:
    """The double sum of what it is given, which is also added to a tensor."""

    def __init__(self) -> None:
        self.so_far: dict[str, Tensor] = {}

    def __call__(self, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
        self.so_far.setdefault("sum", torch.tensor(0.0)).add_(2 * inputs["x"].sum())
        return (2 * inputs["x"].sum(),)

    def replay(self, recorder: Recorder) -> Replay:
        return Replay(self, lambda: self.so_far, CPU, recorder, noise=0.0)


def test_each_shape_is_recorded_once():
    summed, recorded = Summed(), []

    class Counting(Recorder):
        def record(self, function: Callable[[], None]) -> Callable[[], None]:
            recorded.append(function)
            return super().record(function)

    replay = summed.replay(Counting())
    outputs = [
        float(replay({"x": torch.full((size,), value)})[0])
        for size, value in ((2, 1.0), (3, 1.0), (2, 5.0))
    ]
    assert outputs == [4.0, 6.0, 20.0]
    assert len(recorded) == 2
    assert summed.so_far["sum"] == 4 + 6 + 20


@pytest.mark.parametrize("fails", [True, False])
def test_a_recording_that_fails_or_is_wrong_is_not_used(fails):
    summed = Summed()

    class Wrong(Recorder):
        def record(self, function: Callable[[], None]) -> Callable[[], None]:
            try:
                if fails:
                    raise RuntimeError("operation not permitted when stream is capturing\nmore")
            finally:  # as torch.cuda.graph does
                if fails:
                    raise RuntimeError("operation failed due to a previous error during capture")
            return lambda: None

    replay = summed.replay(Wrong())
    with pytest.warns(
        UserWarning,
        match=f"not recorded as CUDA graphs: {'.* stream is capturing;' if fails else ''}",
    ):
        assert float(replay({"x": torch.ones(2)})[0]) == 4
    assert summed.so_far["sum"] == 4


@pytest.mark.parametrize(
    ("name", "share", "is_used"),
    [("table", 1.0, False), ("table", 0.002, True), ("noise", 1.0, True)],
)
def test_a_wrong_gradient_of_one_parameter_is_named(name, share, is_used):
    """The table's gradient is a thousandth of the matrix's, as a bias table's may be; the noise's a
    hundred-thousandth."""
    size = {"matrix": 1.0, "table": 1e-3, "noise": 1e-5}
    gradients = {key: torch.zeros(()) for key in size}

    def function(_: dict[str, Tensor]) -> tuple[Tensor, ...]:
        for key, gradient in gradients.items():
            gradient += size[key]
        return (torch.ones(()),)

    class Wrong(Recorder):
        def record(self, function: Callable[[], None]) -> Callable[[], None]:
            def wrong() -> None:
                function()
                gradients[name] -= share * size[name]

            return wrong

    replay = Replay(function, lambda: gradients, CPU, Wrong(), noise=TOLERANCE)
    with (
        nullcontext()
        if is_used
        else pytest.warns(UserWarning, match=r"table of a replay is off by 1\.0e-03")
    ):
        replay({})
    assert replay.trusted == is_used


def test_steps_are_read_ahead_in_order_and_the_thread_ends():
    class Numbers(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(50))

    before = set(threading.enumerate())
    assert list(Prefetched(Numbers())) == list(range(50))
    items = iter(Prefetched(Numbers()))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before  # threads of earlier tests may have ended meanwhile


def test_an_error_while_reading_ahead_is_raised_where_steps_are_taken():
    class Broken(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            yield 1
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        list(Prefetched(Broken()))


def test_the_head_runs_at_the_predicted_tokens_and_more_up_to_a_sixth():
    labels, held = torch.full((40, 100), -100), torch.randperm(4000)[:3840]
    labels.view(-1)[held[:500]] = 7
    at = outputs(labels, held)
    assert len(at) == len({*at.tolist()}) == 640
    assert {*held[:500].tolist()} <= {*at.tolist()} <= {*held.tolist()}
    assert [len(outputs(labels, None)), len(outputs(labels[:1], None))] == [704, 64]
