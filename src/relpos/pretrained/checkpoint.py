"""A folder of a published checkpoint → our configuration, and the weights of the network that it
describes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.architecture import HeadOptions
from relpos.pretrained.families import FAMILIES
from relpos.pretrained.family import Config, Family, HeadLayout, Weight, names_of
from relpos.pretrained.files import CONFIG, read_config
from relpos.pretrained.mapping import from_config, listed, read
from relpos.pretrained.stored import read_weights, wrapper

OTHER_HEADS = {
    "MultipleChoice": "a choice among several texts cannot be expressed here",
    "QuestionAnswering": "a head that marks the answer in a text cannot be expressed here",
    "TokenClassification": "a classifier of tokens cannot be expressed here: ours classify texts",
}
"""Ends of the names of classes in `transformers` with heads that we do not have → why."""


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint on disk.

    Raises:
        RelposError: its family is not supported, or a file is missing or damaged; the message names
            file and key.

    Example:
        >>> Checkpoint(Path("nowhere")).settings
        Traceback (most recent call last):
        relpos.errors.RelposError: no model in nowhere: config.json is missing
    """

    folder: Path

    @cached_property
    def config(self) -> Config:
        """The content of `config.json`."""
        return read_config(self.folder)

    @cached_property
    def family(self) -> Family:
        """The description by which it is read: that of `model_type`."""
        name = str(self.config.get("model_type"))
        if name not in FAMILIES:
            # No "did you mean": a family with a similar name may compute something else from
            # weights of the same names.
            supported = ", ".join(sorted(FAMILIES))
            raise RelposError(
                f"{self.folder / CONFIG}: model_type={name} is not supported; these are: "
                f"{supported}"
            )
        return FAMILIES[name]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Its weights under their names, mapped into memory."""
        return read_weights(self.folder)

    @cached_property
    def prefix(self) -> str:
        """The beginning of the names of the encoder's weights; empty for an encoder that was stored
        without a head."""
        prefix = self.family.prefix
        if any(name.startswith(prefix) for name in self.tensors):
            return prefix
        return ""

    @cached_property
    def head(self) -> HeadLayout | None:
        """The head whose weights the checkpoint has; None where it has the encoder alone."""
        # A tied decoder may be stored all the same, so that its weights alone do not tell.
        tied = self.config.get("tie_word_embeddings", True) is not False and not self._own_decoder
        for layout in self.family.heads:
            # Without the pooler, which stands in the encoder and says nothing about the head.
            theirs = names_of(layout.weights) & self.tensors.keys()
            own = any(not name.startswith(self.family.prefix) for name in theirs)
            if own and (layout.head.kind != "masked_lm" or layout.head.tied == tied):
                return replace(layout, weights=tuple(map(self._with_decoders_bias, layout.weights)))
        return None

    @property
    def _own_decoder(self) -> bool:
        """Whether the words are predicted with a stored table that is not the word table, as after
        training that untied the two."""
        heads = chain.from_iterable(layout.weights for layout in self.family.heads)
        decoder = self._stored("head.table", heads)
        words = self._stored("embedding.words.weight", self.family.encoder, self.prefix)
        return decoder is not None and words is not None and not torch.equal(decoder, words)

    def _stored(self, ours: str, weights: Iterable[Weight], prefix: str = "") -> Tensor | None:
        """The first stored weight that makes a parameter of ours."""
        names = (prefix + weight.theirs for weight in weights if weight.ours == ours)
        return next((self.tensors[name] for name in names if name in self.tensors), None)

    def _with_decoders_bias(self, weight: Weight) -> Weight:
        """Of two biases of the words that differ, the decoder's is used, as in `transformers`."""
        names = sorted((weight.theirs, weight.also), key=lambda name: ".decoder." not in name)
        stored = [self.tensors[name] for name in names if name in self.tensors]
        if weight.ours != "head.bias" or len(stored) < 2 or torch.equal(*stored):
            return weight
        return replace(weight, theirs=names[0], also=names[1])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The content of our `config.yaml`: `size`, `position`, `conv`, `vocabulary`, and `head` or
        `outputs`."""
        self._check_head()
        try:
            settings = from_config(self.family, self.config)
        except RelposError as error:
            raise RelposError(f"{self.folder / CONFIG}: {error}") from None
        if self._classifier:
            # The weights tell the number of classes; config.json need not.
            bias = self.tensors.get(self._classifier.weights[-1].theirs)
            return settings | {"outputs": 1 if bias is None else len(bias)}
        head = self.head.head if self.head else HeadOptions("none")
        return settings | {"head": asdict(replace(head, pooler=self._has_pooler))}

    @property
    def _classifier(self) -> HeadLayout | None:
        if self.head and self.head.head.kind == "classifier":
            return self.head
        return None

    def _check_head(self) -> None:
        """Raises RelposError for a head that has the weights of a classifier, or a part of them,
        and computes something else."""
        reasons = dict(OTHER_HEADS)
        if not any(layout.head.kind == "classifier" for layout in self.family.heads):
            reasons["SequenceClassification"] = "its classifier computes something else than ours"
        for architecture in self.config.get("architectures") or []:
            kind = str(architecture).rpartition("For")[2]
            if kind in reasons:
                raise RelposError(
                    f"{self.folder / CONFIG}: architectures={architecture}: {reasons[kind]}"
                )
        if self._classifier:
            weights = self._classifier.weights
            pooler = [weight for weight in weights if weight.ours.startswith("pooler.")]
            if not names_of(pooler) & self.tensors.keys():
                raise RelposError(
                    f"{self.folder}: a classifier without a pooler: "
                    f"{OTHER_HEADS['TokenClassification']}"
                )

    def fill(self, model: Any) -> None:
        """Assigns the weights to a network of these `settings`; they keep the number format in
        which they are stored.

        Raises:
            RelposError: a weight is missing, unknown, or of another shape; names it.
        """
        size = model.architecture.size
        weights = listed(self.family, self.head, size, self._has_pooler, self.prefix)
        parameters = {name: tuple(value.shape) for name, value in model.named_parameters()}
        try:
            state = {
                weight.ours: read(weight, self.tensors, parameters[weight.ours], size.heads)
                for weight in weights
            }
        except RelposError as error:
            raise RelposError(
                f"{self.folder}: {error}{wrapper(self.tensors, self.family.prefix)}"
            ) from None
        expected = names_of(weights) | {weight.also for weight in weights}
        unread = re.compile(self.family.unread)
        for name in sorted(self.tensors.keys() - expected):
            if not unread.fullmatch(name):
                raise RelposError(
                    f"{self.folder}: weight {name!r} is unknown to {self.family.model_type}"
                )
        missing = parameters.keys() - state.keys()
        assert not missing, f"{self.family.model_type} says nothing about {sorted(missing)}"
        # Assigned, not copied: the weights stay mapped from the file, and in its number format.
        # Not strict: no checkpoint has the buffers of our position schemes. Parameters were
        # compared above.
        model.load_state_dict(state, strict=False, assign=True)

    @property
    def _has_pooler(self) -> bool:
        """Whether the encoder has a pooler; the pooler of a classifier belongs to its head."""
        theirs = {self.prefix + name for name in names_of(self.family.pooler)}
        return not self._classifier and bool(theirs & self.tensors.keys())
