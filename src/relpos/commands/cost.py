"""`relpos cost`: what a pre-training needs, and how long it takes on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import TYPE_CHECKING, Any, Unpack

from relpos.config.schema import Cost
from relpos.errors import plural, say
from relpos.ranges import NotNegative
from relpos.runs.cost import forward, predicted

if TYPE_CHECKING:
    import torch

DISTURBED = 0.1
"""Share of the time that one thread waits for the processor from which on the time of several threads means nothing."""


def cost(seconds: NotNegative, **config: Unpack[Cost]) -> str:
    """Returns the figures as JSON, and prints a sentence about them on stderr."""
    parameters, stored = _counted(config)
    per_token = 3 * forward(config["size"], config["length"], config["vocabulary"], predicted(config["size"], config["recipe"]))
    step = per_token * config["batch"] * config["length"]
    result = {
        "parameters": parameters,
        "operations": step * config["steps"],
        "operations_per_token": per_token,
        "weights_and_optimiser_bytes": stored,
    }
    said = f"{parameters:,} parameters, {result['operations']:.2g} operations in {plural(config['steps'], 'step')}"
    if seconds:
        result |= (found := _measured(config, seconds))
        result |= {"seconds": found["step_seconds"] * config["steps"], "operations_per_second": step / found["step_seconds"]}
        said += (
            f"; {result['step_seconds']:.3g} s a step on this machine ({result['device']}), {result['seconds'] / 3600:,.2f} hours "
            f"in all, at most {result['peak_memory_bytes'] / 2**30:.1f} GiB"
        )
    say(f"relpos: {said}")
    return json.dumps(result, ensure_ascii=False)


def _counted(config: Cost) -> tuple[int, int]:
    """Parameters, and bytes of float32 weights, their gradients and two moments; of Muon's matrices one moment."""
    from relpos.runs.model import counted, without_memory
    from relpos.train.network import build_model
    from relpos.train.optim import Recipe

    # A network may be larger than this machine's memory, and is only counted.
    with without_memory():
        model = build_model(config)
        total = int(counted(model)["total"])
    return total, 4 * (4 * total - sum(matrix.numel() for matrix in Recipe.of(config["recipe"]).matrices(model)))


def _measured(config: Cost, seconds: float) -> dict[str, Any]:
    """Measures passes for about `seconds`, at least two, and two updates; the first of each does not count.

    All examples are taken to be of full length. The device is a GPU where there is one and `speed.accelerator` allows it.

    On a processor one thread is measured first, by the time that it works: other processes do not change that. Several threads wait
    for each other, so that their time is that of the clock; it is measured only where the one thread had the processor to itself.
    Otherwise they are taken to share its work evenly.
    """
    import torch

    from relpos.counter import fold
    from relpos.model.dropout import seed_dropout
    from relpos.model.precision import autocast
    from relpos.process import one_thread
    from relpos.runs.networks import description
    from relpos.train.described import network
    from relpos.train.module import set_threads
    from relpos.train.optim import Recipe
    from relpos.train.room import fitting_microbatch

    speed, batch, length = config["speed"], config["batch"], config["length"]
    set_threads(speed["threads"])
    device = torch.device("cuda" if torch.cuda.is_available() and speed["accelerator"] != "cpu" else "cpu")
    model = network(description(config, config["vocabulary"]) | {"kernel": speed["kernel"]}).to(device).train()
    asked = speed["microbatch"]
    # As in the training, so that the measured pass is the one that will be run.
    microbatch = min(batch, fitting_microbatch(model.encoder, length, speed["accelerator"]) if asked == "auto" else int(asked))
    masked = predicted(config["size"], config["recipe"])
    ids, labels = (made_up.to(device) for made_up in _made_up(config["vocabulary"], (microbatch, length), masked))
    # At the rate 0 nothing can diverge.
    optimizer = replace(Recipe.of(config["recipe"]), lr=0.0, position_lr=1.0, conv_lr=None).optimizer_of(model)

    def forward_and_backward(number: int) -> None:
        seed_dropout(model, fold(0, number))
        with autocast(config["precision"], device):
            loss = model.loss(ids, labels)
        loss.backward()

    def update(_: int) -> None:  # the gradients stay: without them the next one would have nothing to do
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def step(seconds: float) -> tuple[float, float]:
        parts = zip(_times(forward_and_backward, seconds), _times(update, 0.0), strict=True)
        clock, worked = (-(-batch // microbatch) * of_pass + of_update for of_pass, of_update in parts)
        return clock, worked

    # Schemes that draw positions for each step have none before.
    model.encoder.position.begin_step(0)
    cuda, threads = device.type == "cuda", torch.get_num_threads()
    with nullcontext() if cuda else one_thread():
        clock, alone = step(seconds / (1 if cuda else min(2, threads)))
    if not cuda:
        clock = step(seconds / 2)[0] if threads > 1 and alone > (1 - DISTURBED) * clock else alone / threads
    return {
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {threads} threads",
        "microbatch": microbatch,
        "step_seconds": clock,
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if cuda else getrusage(RUSAGE_SELF).ru_maxrss * 1024,
    }


def _made_up(vocabulary: int, shape: tuple[int, int], masked: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(input ids, labels) of this shape: a share of the tokens is to be predicted."""
    import torch

    generator = torch.Generator().manual_seed(0)
    # The first five ids are special tokens.
    ids = torch.randint(min(5, vocabulary - 1), vocabulary, shape, generator=generator)
    chosen = torch.rand(shape, generator=generator) < masked
    # So that some token is masked: the mean loss over none is not a number.
    chosen[0, 0] = True
    return ids, ids.masked_fill(~chosen, -100)


def _times(work: Callable[[int], None], seconds: float) -> tuple[float, float]:
    """Medians of the seconds by the clock, and of those that this process works; of at least two repetitions."""
    import torch

    times: list[tuple[float, float]] = []
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        clock, worked = time.perf_counter(), time.process_time()
        work(len(times))
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append((time.perf_counter() - clock, time.process_time() - worked))
    # Without the first, which also allocates memory, and compiles where something is compiled.
    return median(clock for clock, _ in times[1:]), median(worked for _, worked in times[1:])
