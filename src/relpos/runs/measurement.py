"""What a training step costs here: some passes and updates of a network on made-up tokens, measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch

from relpos.counter import fold
from relpos.model.dropout import seed_dropout
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast
from relpos.process import one_thread
from relpos.runs.cost import Rate, flops_done, forward, origin_of, predicted, vocabulary_of
from relpos.runs.networks import described_by
from relpos.runs.run import Run
from relpos.train.described import network
from relpos.train.optim import Recipe
from relpos.train.room import fitting_microbatch

SMALL = 2e10
"""Operations of a pass, at most, when a plan measures: a core does them in a fraction of a second."""
DISTURBED = 0.1
"""Share of the time that one thread waits for the processor from which on the time of several threads means nothing."""


@dataclass(frozen=True)
class Measured:
    """How long a step takes.

    Args:
        step: seconds of an update on `batch` examples.
        alone: seconds on one device: one thread of the processor, or the GPU.
        waited: share of the time that one thread waited for the processor; 0 on a GPU.
        microbatch: examples of a pass.
        memory: the largest of the process, or of the GPU, in bytes.
        device: its name.
    """

    step: float
    alone: float
    waited: float
    microbatch: int
    memory: int
    device: str


def measure(
    model: MaskedLM,
    recipe: Recipe,
    batch: int,
    length: int,
    precision: str,
    speed: dict[str, Any],
    seconds: float,
    masked: float,
) -> Measured:
    """Measures passes for about `seconds`, at least two, and two updates; the first of each does not count.

    All examples are taken to be `length` tokens long. The device is a GPU where there is one and `speed.accelerator` allows it.

    On a processor one thread is measured first, by the time that it works: other processes do not change that. Several threads wait
    for each other, so that their time is that of the clock; it is measured only where the one thread had the processor to itself.
    Otherwise the step is taken to be as much shorter as there are threads.
    """
    device = torch.device("cuda" if torch.cuda.is_available() and speed["accelerator"] != "cpu" else "cpu")
    model = model.to(device).train()
    asked = speed["microbatch"]
    # As in the training, so that the measured pass is the one that will be run.
    microbatch = min(batch, fitting_microbatch(model.encoder, length, speed["accelerator"]) if asked == "auto" else int(asked))
    ids, labels = (made_up.to(device) for made_up in _made_up(model, (microbatch, length), masked))
    optimizer = replace(recipe, lr=0.0, position_lr=1.0, conv_lr=None).optimizer_of(model)  # at the rate 0 nothing can diverge

    def forward_and_backward(number: int) -> None:
        seed_dropout(model, fold(0, number))
        with autocast(precision, device):
            loss = model.loss(ids, labels)
        loss.backward()

    def update(_: int) -> None:  # the gradients stay: without them the next one would have nothing to do
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def step(seconds: float) -> tuple[float, float]:
        parts = zip(_times(forward_and_backward, seconds, device), _times(update, 0.0, device), strict=True)
        clock, worked = (-(-batch // microbatch) * of_pass + of_update for of_pass, of_update in parts)
        return clock, worked

    # Schemes that draw positions for each step have none before.
    model.encoder.position.begin_step(0)
    if device.type == "cuda":
        clock = step(seconds)[0]
        return Measured(clock, clock, 0.0, microbatch, _peak(device), torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    with one_thread():
        clock, alone = step(seconds / min(2, threads))
    # The clock and the processor's own time have other resolutions: the difference may fall below 0.
    waited = max(0.0, 1 - alone / clock)
    whole = step(seconds / 2)[0] if threads > 1 and waited < DISTURBED else alone / threads
    return Measured(whole, alone, waited, microbatch, _peak(device), f"CPU, {threads} threads")


def _made_up(model: MaskedLM, shape: tuple[int, int], masked: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(input ids, labels) of this shape: a share of the tokens is to be predicted."""
    generator = torch.Generator().manual_seed(0)
    vocabulary = model.encoder.embedding.words.num_embeddings
    # The first five ids are special tokens.
    ids = torch.randint(min(5, vocabulary - 1), vocabulary, shape, generator=generator)
    chosen = torch.rand(shape, generator=generator) < masked
    # So that some token is masked: the mean loss over none is not a number.
    chosen[0, 0] = True
    return ids, ids.masked_fill(~chosen, -100)


def measured_rate(run: Run) -> Rate:
    """The rate of a run's network, with fewer layers if it is large, on examples as long as those of its text are on average.

    Raises:
        RelposError: the network that the run starts from cannot be read.
    """
    origin = origin_of(run)
    settings = described_by(origin)
    if origin.stage == "pretrain":  # the generated language has fewer words than are asked for
        settings["vocabulary"] = vocabulary_of(origin.inputs["tokenizer"])
    _, cost, per_step = flops_done(run)
    tokens = max(1, round(per_step / run.config["batch"]))
    masked = predicted(settings["size"], run.config["recipe"]) if run.stage == "pretrain" else 0.0
    of_head = settings["vocabulary"] if masked else 0

    def operations(layers: int) -> float:
        return 3.0 * forward(settings["size"] | {"layers": layers}, tokens, of_head, masked)

    layers = settings["size"]["layers"]
    # Layers are alike, so that operations per second hardly depend on their number.
    while layers > 1 and operations(layers) * tokens > SMALL:
        layers //= 2
    speed = dict(run.config["speed"])
    if speed["microbatch"] == "auto" and not torch.cuda.is_available():
        speed["microbatch"] = max(1, min(int(SMALL / operations(layers) / tokens), 2048 // tokens))
    with one_thread(), torch.random.fork_rng(devices=[]):
        node = settings | {"size": settings["size"] | {"layers": layers}, "kernel": speed["kernel"]}
        model = network(node, filled=False)  # the initial weights proper would take longer than the measurement
        drawn = {name: 0.02 * torch.randn(value.shape) for name, value in model.state_dict().items() if value.is_meta}
        model.load_state_dict(drawn, strict=False, assign=True)
        recipe, dials = Recipe.of(run.config["recipe"]), (run.config["batch"], tokens, run.config["precision"])
        measured = measure(model, recipe, *dials, speed, 0.0, masked)
    done = operations(layers) * run.config["batch"] * tokens
    return Rate(run.config["precision"], cost, done / measured.alone, per_step, None, recipe.optimizer)


def _times(work: Callable[[int], None], seconds: float, device: torch.device) -> tuple[float, float]:
    """Medians of the seconds by the clock, and of those that this process works."""
    times: list[tuple[float, float]] = []
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        clock, worked = time.perf_counter(), time.process_time()
        work(len(times))
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - clock, time.process_time() - worked))
    # Without the first, which also allocates memory, and compiles where something is compiled.
    return median(clock for clock, _ in times[1:]), median(worked for _, worked in times[1:])


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
