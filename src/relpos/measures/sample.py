"""A network and the text that it is measured on. Weights, tokenizer and store are loaded once, when
a measure first needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import nn

from relpos.data.shuffle import windows_of_text
from relpos.data.store import ExampleSet, Store
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError, say
from relpos.measures.measure import NothingToMeasure
from relpos.model.encoder import Encoder, encoder_of
from relpos.model.heads import MaskedLM
from relpos.progress import bar
from relpos.readers import ANY, fitted, read_bytes, read_yaml
from relpos.runs.networks import Network

Model = TypeVar("Model", bound=nn.Module)
Part = Literal["heldout", "train"]
SEEN = 1_000
"""Examples of a training whose longest stands for the longest of all."""
EVERY = 10
"""Every tenth window of tokens of a text file is held out."""


@dataclass(frozen=True)
class Sample:
    """The network that a measure is given, with its texts.

    Args:
        network: as it lies on disk.
        gpu: whether it is measured on a GPU where there is one.
        threads: CPU threads; None: torch's own number.
        file: a text file that is read in place of the network's own text; results are not kept
            then.
    """

    network: Network
    gpu: bool = False
    threads: int | None = None
    file: Path | None = None

    @cached_property
    def any_model(self) -> nn.Module:
        """The network with whatever head it has, in evaluation mode and float32, on the device on
        which it is measured."""
        return self._placed(self.network.load().float())

    @cached_property
    def model(self) -> MaskedLM:
        """`any_model` of a network that predicts words.

        Raises:
            RelposError: the network predicts no words.
        """
        return self._placed(self.network.masked_lm())

    def _placed(self, model: Model) -> Model:
        # Before anything is computed: the last digits of a sum depend on the threads.
        if self.threads:
            torch.set_num_threads(self.threads)
        return model.to("cuda" if self.gpu and torch.cuda.is_available() else "cpu")

    @property
    def encoder(self) -> Encoder:
        return encoder_of(self.any_model)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.network.tokenizer()

    @cached_property
    def words(self) -> Words:
        """Where the words of the tokenizer's pieces begin."""
        return Words(self.tokenizer)

    @cached_property
    def store(self) -> Store:
        """The network's text.

        Raises:
            NothingToMeasure: the text is not known.
            RelposError: the text was encoded by another tokenizer, or a file was named in its
                place.
        """
        folder = self.network.store
        if self.file is not None:
            raise RelposError(
                f"text={self.file}: this is measured on the held-out documents of a run, and not "
                f"on a text"
            )
        if folder is None:
            raise NothingToMeasure(
                f"network={self.network.folder}: held-out text is not known for a model folder; "
                f"name it: store=FOLDER"
            )
        store = Store(folder)
        pieces = self.tokenizer.size
        # Ids of another tokenizer stand for other pieces, and the results would be wrong without an
        # error.
        if store.vocabulary != pieces:
            raise RelposError(
                f"store={folder}: made with {store.vocabulary} pieces, the network's tokenizer has "
                f"{pieces}"
            )
        return store

    def heldout(self, count: int) -> ExampleSet:
        """`count` held-out examples at most, as they were formed in the network's training, to be
        masked as BERT masks.

        Raises:
            NothingToMeasure: as `store`.
        """
        return self.store.examples("heldout", self.network.packing, self.network.length, count)

    def texts(self, count: int, length: int, part: Part = "heldout") -> torch.Tensor:
        """(texts, n) ids of windows of text of one length without special tokens, `count` at most:
        of the file, or of the network's own text, and then no longer than the examples that it has
        read in training.

        Raises:
            NothingToMeasure: no text is known.
            RelposError: the text is too short for a single window.
        """
        if self.file is not None:
            ids = self._of_file(self.file, count, length, part)
        elif self.network.store is not None:
            ids = self._of_store(count, length, part)
        else:
            raise NothingToMeasure(
                f"{self.network.name}: text is needed: text=FILE, or store=FOLDER"
            )
        if not len(ids):
            raise RelposError(
                f"{self.file or self.network.store}: too short for a single window of text"
            )
        return ids

    def _of_store(self, count: int, length: int, part: Part) -> torch.Tensor:
        examples = self.store.examples("train", self.network.packing, self.network.length, SEEN)
        # results beyond the lengths of the training would say nothing of what was learned
        if len(examples):
            longest = int(examples.lengths(torch.arange(len(examples))).max()) - 2
            if longest < length and part == "heldout":
                say(
                    f"relpos: {self.network.name}: texts of {longest} tokens, as long as it has "
                    f"read in training"
                )
            length = min(length, longest)
        return windows_of_text(self.store.examples(part, "document", length + 2), count)

    def _of_file(self, path: Path, count: int, length: int, part: Part) -> torch.Tensor:
        """Windows of a text file, whose lines are read as one text."""
        lines = read_bytes(path, ANY).decode(errors="replace").splitlines()
        lines = [line for line in lines if line.strip()]
        # Every tenth window, and not the last tenth of the text, which often ends unlike it begins.
        is_wanted = (np.arange(EVERY) == 0) == (part == "heldout")
        needed = (count + 1) * length * EVERY / is_wanted.sum() + length * EVERY
        ids = np.empty(0, np.int64)
        # In portions, so that of a large file only as much is tokenized as is needed.
        for start in range(0, len(lines), 256):
            ids = np.concatenate([ids, *self.tokenizer.encode(lines[start : start + 256])])
            if len(ids) > needed:
                break
        windows = torch.from_numpy(ids[: len(ids) // length * length]).view(-1, length)
        return windows[is_wanted[np.arange(len(windows)) % EVERY]][:count]

    def bar(self, title: str, total: int) -> AbstractContextManager[Callable[[float], None]]:
        """A progress bar with the network's name, see `relpos.progress`."""
        return bar(f"{self.network.name}: {title}", total)


def reads_toy(store: Path | None) -> bool:
    """Whether a token store is of the embedded language, as far as its run is here."""
    # A store may have been copied without its run.
    if store is None or not (store / "config.yaml").is_file():
        return False
    return is_toy(fitted(read_yaml(store / "config.yaml"), dict[str, object]).get("data"))


def is_toy(data: object) -> bool:
    """Whether the node `data` of a configuration is the embedded language."""
    return isinstance(data, Mapping) and str(data["_target_"]).endswith(".Toy")
