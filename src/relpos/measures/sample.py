"""A network and what it is measured on. What takes time to load is loaded once, when a measure first asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.errors import RelposError
from relpos.files import read_yaml
from relpos.measures.dials import Dials, NothingToMeasure
from relpos.progress import bar
from relpos.runs.networks import Network

if TYPE_CHECKING:
    import torch

    from relpos.data.store import Examples, Store
    from relpos.model.heads import MaskedLM

WINDOW = 32
"""Tokens of each text on which probes and attention are measured."""
TEXTS = 256
"""How many such texts there are, at most."""
ANSWERS = (
    "trained to fill in answers (recipe.masking=answer), it knows no other masks; `relpos order measure=exact` counts its answers"
)
"""Why a loss under BERT's masks says nothing of such a network."""


@dataclass(frozen=True)
class Sample:
    """What a measure looks at.

    Args:
        network: as it lies on disk.
        dials: on how much it is measured.
        accelerator: auto, cpu or gpu.
        threads: CPU threads; None: torch's own number.
    """

    network: Network
    dials: Dials
    accelerator: str = "cpu"
    threads: int | None = None

    @cached_property
    def toy(self) -> bool:
        """Whether the network was trained on the embedded language."""
        return is_of_toy(self.network.store)

    @cached_property
    def model(self) -> MaskedLM:
        """The network in evaluation mode, on the device on which it is measured."""
        import torch

        # Before anything is computed: the last digits of a sum depend on the threads.
        if self.threads:
            torch.set_num_threads(self.threads)
        return self.network.masked_lm().to(_device(self.accelerator))

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
            NothingToMeasure: it is not known.
            RelposError: it was made by another tokenizer.
        """
        folder = self.network.store
        if folder is None:
            raise NothingToMeasure(
                f"network={self.network.folder}: held-out text is not known for a model folder; name it: store=FOLDER"
            )
        from relpos.data.store import Store

        store, pieces = Store(folder), self.tokenizer.size
        # Its ids would stand for other pieces, and all results would still look like numbers.
        if store.vocabulary != pieces:
            raise RelposError(f"store={folder}: made with {store.vocabulary} pieces, the network's tokenizer has {pieces}")
        return store

    def heldout(self) -> Examples:
        """Held-out examples, as they were formed in the network's training, to be masked as BERT masks.

        Raises:
            NothingToMeasure: as `store`; or the network was trained to fill in answers.
        """
        if fills_answers(self.network.record.get("meaning") or {}):
            raise NothingToMeasure(f"{self.network.name}: {ANSWERS}")
        return self.store.examples("heldout", self.network.packing, self.network.length, self.dials.examples)

    def texts(self) -> torch.Tensor:
        """(texts, tokens): windows of held-out text.

        Raises:
            NothingToMeasure: there are too few.
        """
        from relpos.data.shuffle import windows_of_text

        # Two places are left for [CLS] and [SEP].
        window = min(WINDOW, (self.model.encoder.position.max_length or WINDOW + 2) - 2)
        texts = windows_of_text(self.store.examples("heldout", "document", window + 2), TEXTS)
        # The probes divide the texts into three parts, to fit, to choose the penalty and to be judged by.
        if len(texts) < 6:
            raise NothingToMeasure(
                f"{self.network.name}: {len(texts)} held-out windows of {window} tokens are too few for probes and attention"
            )
        return texts

    def bar(self, title: str, total: int) -> AbstractContextManager[Any]:
        """A progress bar with the network's name, see `relpos.progress`."""
        return bar(f"{self.network.name}: {title}", total)


def fills_answers(meaning: Mapping[str, Any]) -> bool:
    """Whether a pre-training of this meaning masks answers and nothing else."""
    from relpos.data.objective import answered, trained_for

    return trained_for(meaning) == answered


def is_toy(data: Mapping[str, Any]) -> bool:
    """Whether the node `data` of a configuration is the embedded language."""
    return str(data.get("_target_", "")).endswith(".Toy")


def is_of_toy(store: Path | None) -> bool:
    """Whether a token store holds the embedded language."""
    return is_toy(data_of(store))


def data_of(store: Path | None) -> dict[str, Any]:
    """The node `data` of the configuration that a token store was made with; empty where it is not known."""
    # A store may have been copied without its run.
    if store is None or not (store / "config.yaml").is_file():
        return {}
    config = read_yaml(store / "config.yaml")
    data = config.get("data") if isinstance(config, dict) else None
    return data if isinstance(data, dict) else {}


def _device(accelerator: str) -> str:
    """`cpu` or `cuda`, for auto, cpu or gpu.

    Raises:
        RelposError: there is no GPU here.
    """
    # Answered first, because torch takes seconds to load.
    if accelerator == "cpu":
        return "cpu"
    import torch

    if accelerator == "gpu" and not torch.cuda.is_available():
        raise RelposError("accelerator=gpu: there is no GPU here")
    return "cuda" if torch.cuda.is_available() else "cpu"
