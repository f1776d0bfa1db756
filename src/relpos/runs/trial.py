"""How fast a small model trains here: a few steps on made-up tokens, which take about a second."""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

import torch
from torch import nn

from relpos.data.passes import passes
from relpos.data.store import Store
from relpos.data.toy.chance import Chance
from relpos.data.toy.corpus import pair
from relpos.runs.cost import flops, flops_per_token, steps_of
from relpos.runs.networks import of_run
from relpos.runs.run import Run
from relpos.train.room import fitting_microbatch

SMALL = 2e10
"""A step of at most so many operations is tried; they take one core about a second."""
SECONDS = 0.5
"""Seconds for which the step is repeated."""
PAIRS = 256
"""Examples whose lengths stand for those of all."""
MARKS = 5
"""[CLS], two [SEP] and the full stops of a pair."""


class Trials:
    """Operations a second and device that a step tried here reaches; each size, batch and kind of text is tried once."""

    def __init__(self) -> None:
        self.known: dict[str, float | None] = {}

    def of(self, run: Run) -> float | None:
        """The rate of a run, counted as `relpos.runs.cost` does; None where a step of it is not small."""
        keys = ("batch", "length", "precision", "data")
        origin = _origin(run)
        network = [run.stage, origin.meaning.get("size"), origin.identity if origin.stage == "given" else None]
        key = json.dumps([*network, {name: run.config.get(name) for name in keys}], sort_keys=True)
        if key not in self.known:
            seconds = seconds_of_a_step(run)
            self.known[key] = flops(run) / steps_of(run) / seconds if seconds else None
        return self.known[key]


def seconds_of_a_step(run: Run) -> float | None:
    """Seconds of forward and backward passes of every micro-batch and the update: the median of a few steps, on one CPU thread.

    None where a step needs more than `SMALL` operations.
    """
    lengths, vocabulary = _text(run)
    generator = torch.Generator().manual_seed(0)
    chosen = lengths[torch.randint(len(lengths), (run.config["batch"],), generator=generator)].sort().values
    if flops_per_token(run) * int(chosen.sum()) > SMALL:
        return None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = of_run(run, vocabulary).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    pieces = model.encoder.embedding.words.num_embeddings
    speed, length = run.config["speed"], run.config["length"]
    asked = speed["microbatch"]
    microbatch = fitting_microbatch(model.encoder, length, speed["accelerator"]) if asked == "auto" else asked
    parts = [chosen[part] for part in passes(chosen, microbatch * length)]
    batches = [tuple(x.to(device) for x in _batch(part, pieces, generator)) for part in parts]
    clock = time.perf_counter if device.type == "cuda" else time.process_time  # CPU time: other processes do not count
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: list[float] = []
    try:
        while len(times) < 3 or sum(times) < SECONDS:
            start = clock()
            for ids, mask in batches:
                _loss(model, ids, mask).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(clock() - start)
    finally:
        torch.set_num_threads(threads)
    return median(times[1:])  # the first one warms up


def _batch(lengths: torch.Tensor, pieces: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask), both (B, longest)."""
    ids = torch.randint(min(5, pieces - 1), pieces, (len(lengths), int(lengths.max())), generator=generator)
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


def _loss(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if hasattr(model, "loss"):
        every_seventh = torch.arange(ids.shape[1], device=ids.device) % 7 == 1
        loss: torch.Tensor = model.loss(ids, ids.where(every_seventh & mask, -100), mask)
        return loss
    return nn.functional.cross_entropy(model(ids, mask), ids[:, 0] % model.classifier.out_features)


def _text(run: Run) -> tuple[torch.Tensor, int | None]:
    """Lengths of some examples in tokens, and the size of the vocabulary if the tokenizer is not trained yet.

    The lengths are those in the store if it is finished. For the toy language they come from sentences generated here, whose words
    count as the pieces. For other text every example is taken to have the full length.
    """
    origin, length = _origin(run), run.config["length"]
    store = origin.inputs.get("store")
    if store is not None and store.state == "finished":
        examples = Store(store.path).examples("train", origin.config["packing"], length, PAIRS)
        return examples.lengths(torch.arange(len(examples))), None
    if store is None or "toy" not in store.inputs:
        return torch.full((1,), length), None
    pairs = [pair(Chance(0, number)) for number in range(PAIRS)]
    lengths = [min(length, sum(map(len, sentences)) + MARKS) for sentences in pairs]
    words = {word for sentences in pairs for sentence in sentences for word in sentence}
    return torch.tensor(lengths), min(len(words) + MARKS, store.inputs["tokenizer"].config["vocabulary"])


def _origin(run: Run) -> Run:
    """The pre-training, or the folder named by the user, that a run starts from, at any depth."""
    while "start" in run.inputs:
        run = run.inputs["start"]
    return run
