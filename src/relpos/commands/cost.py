"""`relpos cost`: what a pre-training of these words needs, and how long it takes on this machine."""

from __future__ import annotations

import json
import sys
from typing import Any

from omegaconf import DictConfig, OmegaConf

from relpos.commands.params import counted_without_memory
from relpos.runs.cost import forward

BYTES_A_PARAMETER = 16
"""float32 weight, gradient and the two moments of AdamW."""


def cost(cfg: DictConfig) -> str:
    """The figures as JSON; a sentence about them on stderr. A measurement is kept for plans."""
    words: Any = OmegaConf.to_container(cfg, resolve=True)
    parameters = counted_without_memory(cfg)["total"]
    per_token = 3 * forward(words["size"], words["length"], words["vocabulary"])
    step = per_token * words["batch"] * words["length"]
    result = {
        "parameters": parameters,
        "operations": step * words["steps"],
        "operations_per_token": per_token,
        "weights_and_optimiser_bytes": BYTES_A_PARAMETER * parameters,
    }
    said = f"{parameters:,} parameters, {result['operations']:.2g} operations in {words['steps']:,} steps"
    if words["seconds"]:
        result |= _measured(cfg, words, per_token, step)
        hours = result["seconds"] / 3600
        said += (
            f"; {result['step_seconds']:.3g} s a step on this machine ({result['device']}), {hours:,.2f} hours in all, "
            f"at most {result['peak_memory_bytes'] / 2**30:.1f} GiB"
        )
    print(f"relpos: {said}", file=sys.stderr)
    return json.dumps(result, ensure_ascii=False)


def _measured(cfg: DictConfig, words: dict[str, Any], per_token: float, step: float) -> dict[str, Any]:
    from relpos.runs.execute import hardware
    from relpos.runs.measurement import keep, measure
    from relpos.runs.run import runs_root
    from relpos.train.module import set_threads
    from relpos.train.network import network

    speed = words["speed"]
    set_threads(speed["threads"])
    made = network({key: words[key] for key in ("size", "position", "conv", "vocabulary")} | {"kernel": speed["kernel"]})
    found = measure(made, words["batch"], words["length"], words["precision"], speed, words["seconds"])
    keep(runs_root(), hardware(), words["precision"], per_token, step / found.step)
    return {
        "device": found.device,
        "microbatch": found.microbatch,
        "step_seconds": found.step,
        "seconds": found.step * words["steps"],
        "operations_per_second": step / found.step,
        "peak_memory_bytes": found.memory,
    }
