"""The toy language: `corpus/` and `glue/`, written from a seed. And the text of a configuration,
which may be the toy language."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from relpos.data.source import READING, Toy
from relpos.readers import Plain
from relpos.runs.run import Run
from relpos.trust import instantiate


class ToyStage(Run):
    stage, version = "toy", 1

    def work(self) -> Plain:
        from relpos.data.toy.write import (
            write,  # a word list of thousands of forms, for this run alone
        )

        write(self.path, self.config.seed or 0)
        return {}


@dataclass(frozen=True)
class Corpus:
    """The text of a configuration.

    Args:
        source: that `data` describes.
        inputs: the run that writes it, if it is the toy language.
    """

    source: Any
    inputs: dict[str, Run]

    @cached_property
    def meaning(self) -> Plain:
        """Its part of an identity: what the files contain; of the toy language nothing, since its
        run is an input."""
        if self.inputs:
            return {}
        reading = {} if self.source.alike else {"reading": READING}
        return {"corpus": self.source.identity()} | reading


def corpus_of(config: Plain) -> Corpus:
    """The text that the key `data` describes."""
    source = instantiate(config["data"], "data")
    if not isinstance(source, Toy):
        return Corpus(source, {})
    name = f"seed{source.seed}"
    seed = {"seed": source.seed}
    return Corpus(source, {"toy": ToyStage.of(name, source.identity() or {}, seed)})
