"""`relpos cost`: parameters, operations and memory of a pre-training, and its time on this
machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import Annotated

import torch

from relpos.config.compose import resolved
from relpos.config.schema import NetworkKeys, Precision, RecipeKeys, Speed
from relpos.counter import fold
from relpos.data.objective import trained_for
from relpos.errors import plural, say
from relpos.files import write_json
from relpos.model.architecture import Architecture
from relpos.model.build import build, counted
from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast
from relpos.process import set_threads
from relpos.ranges import Arguments, Batch, Count, Length, NotNegative, parsed
from relpos.readers import Plain
from relpos.runs.cost import RATE, forward, hardware
from relpos.runs.run import runs_root
from relpos.train.room import fitting_microbatch


@dataclass(frozen=True, kw_only=True)
class CostKeys:
    """The keys that are read besides the network's."""

    seconds: NotNegative
    recipe: RecipeKeys
    speed: Speed
    steps: Count
    batch: Batch
    precision: Precision
    length: Length


def cost(content: Annotated[Plain, Arguments(CostKeys, NetworkKeys)]) -> str:
    """Returns the figures as JSON, and prints a sentence about them on stderr.

    The measured rate is written into the runs folder, where plans read it.
    """
    content = resolved(content)
    architecture, config = parsed(Architecture, content), parsed(CostKeys, content)
    size = architecture.size
    masked = trained_for(size.causal, config.recipe.masking, config.steps).expected
    parameters = counted(architecture)["total"]
    per_token = 3 * forward(size, config.length, architecture.vocabulary, masked)
    step = per_token * config.batch * config.length
    operations = step * config.steps
    result: Plain = {
        "parameters": parameters,
        "operations": operations,
        "operations_per_token": per_token,
    }
    line = (
        f"{parameters:,} parameters, {operations:.2g} operations in {plural(config.steps, 'step')}"
    )
    if config.seconds:
        measured = _measured(architecture, config, masked)
        device, step_seconds = measured["device"], measured["step_seconds"]
        rate, seconds = step / step_seconds, step_seconds * config.steps
        workers = torch.get_num_threads() if device.startswith("CPU") else 1
        of_device = {"hardware": hardware(), "operations_per_second": rate / workers}
        write_json(runs_root() / RATE, of_device)
        result |= measured | {"seconds": seconds, "operations_per_second": rate}
        line += (
            f"; {step_seconds:.3g} s a step on this machine ({device}), {seconds / 3600:,.2f} hours "
            f"in all, at most {measured['peak_memory_bytes'] / 2**30:.1f} GiB"
        )
    say(f"relpos: {line}")
    return json.dumps(result, ensure_ascii=False)


def _measured(architecture: Architecture, config: CostKeys, masked: float) -> Plain:
    """Times passes for about `seconds` (at least two) and two updates; the first of each does not
    count.

    All examples have full length. The device is a GPU if there is one and `speed.accelerator`
    allows it.

    Args:
        architecture, config: what is trained, and how.
        masked: the share of the tokens that are predicted.
    """
    speed = config.speed
    set_threads(speed.threads)
    is_gpu = torch.cuda.is_available() and speed.accelerator != "cpu"
    device = torch.device("cuda" if is_gpu else "cpu")
    model = build(architecture, speed.kernel).to(device).train()
    # The microbatch of the training, so that its pass is measured.
    if speed.microbatch == "auto":
        fitting = fitting_microbatch(model.encoder, config.length, speed.accelerator)
    else:
        fitting = int(speed.microbatch)
    microbatch = min(config.batch, fitting)
    generator = torch.Generator().manual_seed(0)
    shape = microbatch, config.length
    # The first five ids are special tokens.
    least = min(5, architecture.vocabulary - 1)
    ids = torch.randint(least, architecture.vocabulary, shape, generator=generator)
    chosen = torch.rand(shape, generator=generator) < masked
    # The mean loss over no masked tokens would be not-a-number.
    chosen[0, 0] = True
    ids, labels = ids.to(device), ids.masked_fill(~chosen, -100).to(device)
    # At a learning rate of 0 nothing can diverge.
    optimizer = replace(config.recipe, lr=0.0, position_lr=1.0, conv_lr=None).optimizer_of(model)

    def forward_and_backward(number: int) -> None:
        seed_dropout(model, fold(0, number))
        with autocast(config.precision, device):
            loss = model.loss(ids, labels)
        loss.backward()

    def update(_: int) -> None:  # the gradients stay for the next update
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    # Some schemes draw positions for each step.
    model.encoder.position.begin_step(0)
    passes = -(-config.batch // microbatch)
    seconds = passes * _median(forward_and_backward, config.seconds) + _median(update, 0.0)
    if is_gpu:
        name, memory = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated()
    else:
        name = f"CPU, {torch.get_num_threads()} threads"
        memory = getrusage(RUSAGE_SELF).ru_maxrss * 1024
    return {
        "device": name,
        "microbatch": microbatch,
        "step_seconds": seconds,
        "peak_memory_bytes": memory,
    }


def _median(work: Callable[[int], None], seconds: float) -> float:
    """The median of the seconds of at least two repetitions."""
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        work(len(times))
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    # The first repetition also allocates memory and compiles.
    return median(times[1:])
