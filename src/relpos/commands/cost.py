"""`relpos cost`: what a pre-training needs, and how long it takes on this machine."""

from __future__ import annotations

import json
import sys
from typing import Any, Unpack

from relpos.config.schema import Cost
from relpos.ranges import NotNegative
from relpos.runs.cost import forward, predicted


def cost(seconds: NotNegative, **config: Unpack[Cost]) -> str:
    """Returns the figures as JSON, and prints a sentence about them on stderr. A measurement is kept for plans."""
    parameters, stored = _counted(config)
    per_token = 3 * forward(config["size"], config["length"], config["vocabulary"], predicted(config["size"], config["recipe"]))
    step = per_token * config["batch"] * config["length"]
    result = {
        "parameters": parameters,
        "operations": step * config["steps"],
        "operations_per_token": per_token,
        "weights_and_optimiser_bytes": stored,
    }
    said = f"{parameters:,} parameters, {result['operations']:.2g} operations in {config['steps']:,} steps"
    if seconds:
        # Only where something is measured: counting alone needs neither records nor a trainer.
        from relpos.runs.estimate import how_busy

        result |= _measured(config, per_token, step, seconds)
        hours = result["seconds"] / 3600
        said += (
            f"; {result['step_seconds']:.3g} s a step on this machine ({result['device']}), {hours:,.2f} hours in all, "
            f"at most {result['peak_memory_bytes'] / 2**30:.1f} GiB{how_busy()}"
        )
    print(f"relpos: {said}", file=sys.stderr)
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


def _measured(config: Cost, per_token: float, step: float, seconds: float) -> dict[str, Any]:
    from relpos.runs.cost import Rate
    from relpos.runs.estimate import keep
    from relpos.runs.measurement import measure
    from relpos.runs.networks import description
    from relpos.train.described import network
    from relpos.train.module import set_threads
    from relpos.train.optim import Recipe

    speed, tokens = config["speed"], config["batch"] * config["length"]
    set_threads(speed["threads"])
    model = network(description(config, config["vocabulary"]) | {"kernel": speed["kernel"]})
    recipe, masked = Recipe.of(config["recipe"]), predicted(config["size"], config["recipe"])
    measured = measure(model, recipe, config["batch"], config["length"], config["precision"], dict(speed), seconds, masked)
    # Per device, so that plans can divide it among as many threads as a run will have.
    keep(Rate(config["precision"], per_token, step / measured.alone, tokens, None, recipe.optimizer))
    return {
        "device": measured.device,
        "microbatch": measured.microbatch,
        "step_seconds": measured.step,
        "seconds": measured.step * config["steps"],
        "operations_per_second": step / measured.step,
        "peak_memory_bytes": measured.memory,
    }
