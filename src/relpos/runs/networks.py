"""A name that a user gives to a network → the network as it lies on disk. Every command and
`network=` read names here.

A name is the folder of a finished run, a snapshot's file, a model folder, a published checkpoint
(its folder or its id on the Hugging Face hub), or `TABLE:ROW`: the finished pre-trainings of a row
of a table that has been written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.model.architecture import scheme_name
from relpos.model.heads import MaskedLM
from relpos.places import expanded
from relpos.pretrained.files import (
    form_of,
    located,
    name_of,
    read_config,
    weight_files,
)
from relpos.readers import read_yaml
from relpos.runs.run import Record, input_of, read_record, runs_root
from relpos.runs.shelf import END, SNAPSHOTS, run_of, snapshot, snapshots
from relpos.runs.table_file import FILE, runs_by_row, table_folder
from relpos.train.weights import WEIGHTS, opened, read_architecture

KINDS = {"pretrain": "pre-training", "finetune": "fine-tuning"}
"""Stage whose runs hold a network → what such a run is called."""
LENGTH = 128  # of examples, for a network about whose training nothing is known


@dataclass(frozen=True)
class Network:
    """A network as it lies on disk.

    Args:
        name: of its folder; for a snapshot, with its per cent of the steps.
        folder: the model folder: configuration and tokenizer.
        weights: the file that fills the network, or the first of several; a snapshot's or the model
            folder's own.
        run: the folder of the run that trained it, where there is one: results are kept there.
        record: of that run.
        row: the row of a table that the user named it by.
        store: the tokens that it was pre-trained on and the held-out ones; None where they are not
            known.
        packing, length, precision: how the pre-training read its examples.
        seed: of the run.
    """

    name: str
    folder: Path
    weights: Path
    run: Path | None = None
    record: Record = field(default_factory=Record, repr=False)
    row: str | None = None
    store: Path | None = None
    packing: str = "pair"
    length: int = LENGTH
    precision: str = "fp32"
    seed: int | None = None

    @property
    def is_snapshot(self) -> bool:
        return self.weights.parent.name == SNAPSHOTS and self.weights.parent.parent == self.run

    @property
    def is_pretraining(self) -> bool:
        """Whether it is that of a pre-training, and not of a fine-tuning or of nobody knows
        what."""
        return self.record.get("stage") == "pretrain"

    @property
    def share(self) -> int:
        """Per cent of its training steps that the network has done: 100 unless it is a snapshot."""
        return int(self.weights.stem) if self.is_snapshot and self.weights.stem.isdigit() else END

    @property
    def path(self) -> Path:
        """What `relpos.train.weights.opened` takes: the model folder, or a snapshot's file."""
        return self.weights if self.is_snapshot else self.folder

    @property
    def file_name(self) -> str:
        """The name as a part of the names of files."""
        return self.name.replace(" at ", "-").replace(" %", "")

    def load(self) -> Any:
        """The network in evaluation mode, with whatever head it has, in the number format in which
        it is stored."""
        return opened(self.path)

    def masked_lm(self) -> MaskedLM:
        """The network in evaluation mode and float32, in which everything is measured.

        Raises:
            RelposError: it predicts no words.
        """
        self.refuse_classifier()
        model = self.load()
        if not isinstance(model, MaskedLM):
            raise RelposError(
                f"network={self.folder}: this checkpoint has no head that predicts words"
            )
        return model.float()

    def refuse_classifier(self) -> None:
        """Refuses a fine-tuned classifier, without reading its weights.

        Raises:
            RelposError: the network is one; names the run that it was fine-tuned from.
        """
        if self.is_pretraining:  # its weights may be elsewhere
            return
        start = self.record.inputs.get("start")
        if start or read_architecture(self.folder).outputs:
            hint = f", {input_of(self.run, 'start')}" if self.run and start else ""
            named = self.run or self.folder
            raise RelposError(
                f"network={named}: a fine-tuned classifier predicts no words; name "
                f"its pre-training{hint}"
            )

    def tokenizer(self) -> Tokenizer:
        """Its tokenizer.

        Raises:
            RelposError: the model folder has none.
        """
        return load_tokenizer(self.folder)

    def snapshots(self) -> dict[int, Network]:
        """Per cent of the steps → the network as it was then; empty where the run kept none."""
        return {share: self.at(share) for share in snapshots(self.run)} if self.run else {}

    def at(self, share: int) -> Network:
        """The network of a run as it was at so many per cent of the steps; its weights may be
        missing."""
        assert self.run is not None
        return replace(self, name=f"{self.name} at {share} %", weights=snapshot(self.run, share))


def resolve(name: str | Path) -> Network:
    """The network of this name; of `TABLE:ROW`, that of the row's first finished pre-training.

    Raises:
        RelposError: there is no such network; says what is there instead, and the nearest names.
    """
    return networks_of(name)[0]


def networks_of(name: str | Path, store: Path | None = None) -> list[Network]:
    """All networks of a name: one, but a row and the folder of a table stand for all their finished
    pre-trainings.

    Args:
        name: see above.
        store: held-out text for a model folder that stands alone.

    Raises:
        RelposError: as `resolve`; or no pre-training is finished.
    """
    path = expanded(name)
    # At the last colon: a table may be named by a path with a colon in it.
    table, _, row = str(name).rpartition(":")
    if (path / FILE).is_file():
        return _from_table(f"network={name}", path)
    if table and not path.exists():
        return _from_table(f"network={name}", table_folder(table), row)
    return [_from_path(str(name), path, store)]


def networks_of_table(table: str) -> list[Network]:
    """The finished pre-trainings of all rows of `table=TABLE`.

    Raises:
        RelposError: there is no such table, or no pre-training is finished.
    """
    return _from_table(f"table={table}", table_folder(table))


def labels(networks: Sequence[Network]) -> list[str]:
    """Names that tell some networks apart: a row's, or position and convolution of the run. If
    these are not different, they are the whole names.
    """
    in_row = Counter(network.row for network in networks)
    # Seeds are added only where a row is there several times: labels are read in legends.
    short = []
    for network in networks:
        if network.row:
            short.append(network.row + f" seed {network.seed}" * (in_row[network.row] > 1))
        else:
            short.append(_scheme(network))
    return short if len(set(short)) == len(short) else [network.name for network in networks]


def _scheme(network: Network) -> str:
    """Position and convolution, as the run's meaning has them; the name of a network whose training
    is not known."""
    match network.record.meaning:
        case {"position": position, "conv": conv}:
            return scheme_name(position, conv) + f" at {network.share} %" * network.is_snapshot
    return network.name


def _from_path(name: str, path: Path, store: Path | None) -> Network:
    if path.suffix == ".safetensors" and path.parent.name == SNAPSHOTS:
        if not path.is_file():
            raise RelposError(
                f"network={path}: no such "
                f"snapshot.{nearest(path.name, (file.name for file in path.parent.glob('*')))}"
            )
        run = of_run(run_of(path))
        return replace(run, name=f"{run.name} at {path.stem} %", weights=path)
    # RUN/model stands for its run, by whose record the text and the results are known.
    for folder in (path, run_of(path.resolve())):
        if read_record(folder):
            return of_run(folder)
    folder = path / "model" if (path / "model").is_dir() else located(name)
    form = form_of(folder)
    if form == "published":
        # Some checkpoints say null, -1 or nothing about how long their inputs may be.
        longest = read_config(folder).get("max_position_embeddings")
        length = min(LENGTH, longest) if isinstance(longest, int) and longest > 0 else LENGTH
        label = name_of(folder) if folder == path else name
        return Network(
            label.replace("/", "-"),
            folder,
            weight_files(folder)[0],
            store=store,
            length=length,
        )
    weights = weight_files(folder)[0] if form == "exported" else folder / WEIGHTS
    if not weights.is_file():
        raise RelposError(f"network={path}: {_instead(path)}")
    return Network(path.resolve().name, folder, weights, store=store)


def of_run(folder: Path) -> Network:
    """The network of a finished pre-training or fine-tuning, by the run's folder.

    Raises:
        RelposError: the run is another one, not finished, or damaged.
    """
    record = read_record(folder)
    stage = record.get("stage")
    state = record.get("state")
    # The run was deleted after its table was written, for instance, or failed before it began.
    if stage is None:
        raise RelposError(
            f"network={folder}: no run that has begun (record.json is missing or names no stage)"
        )
    if stage not in KINDS:
        raise RelposError(
            f"network={folder}: a run of stage {stage} holds no network; a "
            f"pre-training or fine-tuning is expected"
        )
    if state != "finished":
        raise RelposError(
            f"network={folder}: this {KINDS[stage]} is not finished (its record says {state})"
        )
    model = folder / "model"
    # The weights may be missing, as in committed records: whoever only reads results needs none.
    network = Network(folder.resolve().name, model, model / WEIGHTS, folder, record)
    if not network.is_pretraining:
        return network
    config = read_yaml(folder / "config.yaml")
    try:
        dials = {key: config[key] for key in ("packing", "length", "precision", "seed")}
        return replace(network, store=input_of(folder, "store"), **dials)
    except (KeyError, TypeError) as error:
        raise RelposError(
            f"network={folder}: damaged: its record or config.yaml lacks something ({error})"
        ) from error


def _from_table(override: str, folder: Path, row: str | None = None) -> list[Network]:
    """The finished pre-trainings of a table's row, in the order of their seeds; None: of all
    rows."""
    rows = runs_by_row(folder)
    if row is not None:
        refuse_unknown(f"table {folder.name}: unknown row", row, rows)
        rows = {row: rows[row]}
    networks = [
        replace(of_run(runs_root() / run.path), row=name)
        for name, runs in rows.items()
        for run in runs
        if run.is_pretraining and run.state == "finished"
    ]
    if not networks:
        raise RelposError(
            f"{override}: no pre-training {'of this row ' if row is not None else ''}is finished"
        )
    return networks


def _instead(path: Path) -> str:
    """What is at a path where no network is."""
    if not path.exists():
        hint = nearest(path.name, (file.name for file in path.parent.glob("*")))
        return f"no such folder or file{f'.{hint}' if 'Did you mean' in hint else ''}"
    text = f"no finished run and no model folder ({WEIGHTS} is missing)"
    files = [*path.glob(f"*/{WEIGHTS}"), *path.glob("*/record.json")]
    inside = sorted({file.parent.name for file in files})
    return (
        f"{text}; it holds {', '.join(inside[:3])}{', …' * (len(inside) > 3)}" if inside else text
    )
