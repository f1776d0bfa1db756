"""`relpos analyze KIND`: what trained networks do with their positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from relpos.analysis.kinds.properties import Properties
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.config.conf import conf_dir
from relpos.errors import RelposError, say
from relpos.files import ANY, digest, read_bytes
from relpos.places import expanded
from relpos.ranges import Names, Threads
from relpos.runs.networks import Network, networks_of
from relpos.runs.run import runs_root
from relpos.trust import instantiate

if TYPE_CHECKING:
    from relpos.analysis.texts import Texts
    from relpos.data.tokenizer import Tokenizer

Reader = Callable[[int, int], "Texts"]
"""(how many, length) → texts."""

SEEN = 1_000
"""Examples of a training whose longest stands for the longest of all."""
HELDOUT = 10
"""Every tenth window of tokens of a text file is held out."""


def analyze(kind: dict[str, Any], network: Names | None, text: str | None, threads: Threads | None) -> str:
    """Writes tables (CSV) and figures (PNG, PDF) into a folder below `$RELPOS_RUNS/analysis`, which it returns.

    Raises:
        RelposError: no network is named, or this kind of analysis does not apply to it; nothing is written then.
    """
    from relpos.train.module import set_threads

    set_threads(threads)
    draw = instantiate(kind, "kind")
    if isinstance(draw, Properties):
        drawings, subjects = [_properties(draw)], []
    else:
        subjects = subjects_of(network, text)
        # All are drawn before the first is written: a network that is refused leaves no half a folder.
        drawings = list(draw(subjects))
    # All that the drawings depend on: another choice goes into another folder.
    content = {"kind": kind, "network": network, "text": text, "threads": threads}
    folder = runs_root() / "analysis" / _folder(content, [subject.name for subject in subjects])
    for drawing in drawings:
        drawing.save(folder)
    return str(folder)


def subjects_of(named: list[str] | None, file: str | None) -> list[Subject]:
    """The networks of these names, which are analysed with the text of a file, or else with their own.

    Raises:
        RelposError: none is named; there is no such network; or two different ones have one name.
    """
    text = expanded(file) if file else None
    if text is not None and not text.is_file():
        raise RelposError(f"text={file}: no such file")
    # By path: a network that is named twice is one.
    networks = list({each.path.resolve(): each for name in named or () for each in networks_of(name)}.values())
    if not networks:
        raise RelposError("which network? network=FOLDER must be given")
    name, count = Counter(network.name for network in networks).most_common(1)[0]
    # Files are named by networks: the figures of one would replace those of the other.
    if count > 1:
        raise RelposError(f"network: {count} different networks are called {name!r}; another name for a folder tells them apart")
    return [_subject(network, text) for network in networks]


def _subject(network: Network, text: Path | None) -> Subject:
    # A text that is named comes before the network's own: whoever names one wants networks compared on it.
    readers: tuple[Reader | None, Reader | None] = None, None
    if text is not None:
        readers = _of_file(text, network.tokenizer)
    elif network.store is not None:
        readers = _of_store(network, network.store, "heldout"), _of_store(network, network.store, "train")
    metrics = network.record.get("metrics", {})
    return Subject(
        network.name,
        # Loaded when it is drawn: some kinds look at the snapshots alone, others at one network after another.
        lambda: network.load().float(),
        *readers,
        {share: snapshot.load for share, snapshot in network.snapshots().items()},
        {key: float(value) for key, value in metrics.items() if isinstance(value, int | float)},
    )


def _of_file(path: Path, load: Callable[[], Tokenizer]) -> tuple[Reader, Reader]:
    """Readers of the held-out windows of a text file, and of the others. Its lines are read as one text."""

    def reader(held_out: bool) -> Reader:
        def read(count: int, length: int) -> Texts:
            tokenizer = load()
            lines = [line for line in read_bytes(path, ANY).decode(errors="replace").splitlines() if line.strip()]
            ids: list[np.ndarray] = []
            tokens = 0
            # In portions: of a large file only as much is tokenized as is asked for.
            for start in range(0, len(lines), 256):
                ids += tokenizer.encode(lines[start : start + 256])
                tokens = sum(map(len, ids))
                if tokens > (count + 1) * length * (HELDOUT if held_out else HELDOUT / (HELDOUT - 1)) + length * HELDOUT:
                    break
            flat = np.concatenate(ids) if ids else np.empty(0, np.int32)
            windows = torch.from_numpy(flat[: len(flat) // length * length].astype(np.int64)).view(-1, length)
            # Every tenth, and not the last tenth: a text often ends unlike it begins.
            is_held_out = torch.arange(len(windows)) % HELDOUT == 0
            return _texts(windows[is_held_out == held_out][:count], tokenizer, str(path))

        return read

    return reader(True), reader(False)


def _of_store(network: Network, store: Path, part: Literal["heldout", "train"]) -> Reader:
    def read(count: int, length: int) -> Texts:
        from relpos.data.shuffle import windows_of_text
        from relpos.data.store import Store

        text = Store(store)
        examples = text.examples("train", network.packing, network.length, SEEN)
        # What a network does with more tokens than it has ever been given says nothing of what it has learned.
        longest = int(examples.lengths(torch.arange(len(examples))).max()) - 2 if len(examples) else length
        if longest < length and part == "heldout":
            say(f"relpos: {network.name}: texts of {longest} tokens, as long as it has read in training")
        ids = windows_of_text(text.examples(part, "document", min(length, longest) + 2), count)
        return _texts(ids, network.tokenizer(), str(store))

    return read


def _texts(ids: torch.Tensor, tokenizer: Tokenizer, source: str) -> Texts:
    from relpos.analysis.texts import Texts

    if not len(ids):
        raise RelposError(f"{source}: too short for a single window of text")
    return Texts(ids, tokenizer)


def _properties(kind: Properties) -> Drawing:
    """The analysis of small networks of the schemes, as in the claim W22; parameters are counted at size=base."""
    from relpos.claims.counts import position_parameters
    from relpos.claims.exact import methods_of_table_1, network

    known = sorted(file.stem for file in (conf_dir() / "position").glob("*.yaml"))
    for name in kind.schemes or ():
        if name not in known:
            raise RelposError(f"kind.schemes: unknown position {name!r}. Known: {', '.join(known)}.")
    return kind.of_schemes(
        lambda name: network(f"position={name}"),
        lambda name: position_parameters(f"position={name}", "size=base"),
        methods_of_table_1(),
    )


def _folder(content: dict[str, Any], subjects: Sequence[str]) -> str:
    kind = content["kind"]["_target_"].rpartition(".")[2].lower()
    what = subjects[0] if len(subjects) == 1 else f"{len(subjects)}-networks" if subjects else "schemes"
    return f"{kind}-{what}-{digest(content)}"
