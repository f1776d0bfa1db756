"""A folder that a user names → the masked language model that lies there, and the held-out text that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from relpos.errors import RelposError
from relpos.pretrained.files import is_published, name_of, read_config, weight_files
from relpos.pretrained.hub import located
from relpos.runs.run import read_record

if TYPE_CHECKING:
    from relpos.model.heads import MaskedLM

WEIGHTS = "model.safetensors"
LENGTH = 128  # of examples, for a network about whose training nothing is known
SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class Trained:
    """A network with a masked-language-modelling head, as it lies on disk.

    Args:
        name: of its folder; for a snapshot, with its per cent of the steps.
        folder: the model folder: configuration and tokenizer.
        weights: the file that fills the network; a snapshot's or the model folder's own.
        run: the folder of the pre-training, where there is one: results are kept there.
        store: the tokens that it was trained on and the held-out ones; None where they are not known.
        packing, length: how the examples of the training were formed.
        seed: of the pre-training.
    """

    name: str
    folder: Path
    weights: Path
    run: Path | None = None
    store: Path | None = None
    packing: str = "pair"
    length: int = 128
    seed: int | None = None

    @property
    def share(self) -> int:
        """Per cent of its training steps that the network has done: 100 unless it is a snapshot."""
        return int(self.weights.stem) if self.weights.parent.name == SNAPSHOTS and self.weights.stem.isdigit() else 100

    def load(self) -> MaskedLM:
        """The network, in evaluation mode and float32, in which everything is measured.

        Raises:
            RelposError: it is a classifier, or the weights are those of another network.
        """
        from relpos.model.heads import MaskedLM
        from relpos.train.weights import load_model, load_weights, read_model_config

        if "outputs" in read_model_config(self.folder):
            raise RelposError(f"network={self.folder}: a fine-tuned classifier predicts no words; name its pre-training")
        model = load_model(self.folder)
        if not isinstance(model, MaskedLM):
            raise RelposError(f"network={self.folder}: this checkpoint has no head that predicts words")
        if self.weights.parent.name == SNAPSHOTS:
            load_weights(model, self.weights)
        return model.float().eval()

    def snapshots(self) -> dict[int, Trained]:
        """Per cent of the steps → the network as it was then; empty where the run kept none."""
        files = (self.run / SNAPSHOTS).glob("*.safetensors") if self.run else ()
        return {share: self.at(share) for share in sorted(int(file.stem) for file in files if file.stem.isdigit())}

    def at(self, share: int) -> Trained:
        """The network of a run as it was at so many per cent of the steps; its weights may be missing."""
        assert self.run is not None
        return replace(self, name=f"{self.name} at {share} %", weights=self.run / SNAPSHOTS / f"{share}.safetensors")


def trained(path: Path, store: Path | None = None) -> Trained:
    """What `network=PATH` names: a finished pre-training's folder, a model folder, a snapshot's file, or a published checkpoint.

    Args:
        path: the folder or file.
        store: held-out text for a model folder that stands alone.

    Raises:
        RelposError: there is no such network; says what is there instead.
    """
    if path.suffix == ".safetensors" and path.parent.name == SNAPSHOTS:
        if not path.is_file():
            raise RelposError(f"network={path}: no such snapshot")
        run = _of_run(path.parent.parent, read_record(path.parent.parent))
        return replace(run, name=f"{run.name} at {path.stem} %", weights=path)
    record = read_record(path)
    if record:
        return _of_run(path, record)
    if path.name == "model" and (above := read_record(path.resolve().parent)).get("stage") == "pretrain":
        return _of_run(path.resolve().parent, above)
    if (published := located(path)) and is_published(published):
        config = read_config(published)
        length = min(LENGTH, int(config.get("max_position_embeddings") or LENGTH))
        name = name_of(path) if published == path else str(path)
        return Trained(name.replace("/", "-"), published, weight_files(published)[0], store=store, length=length)
    if not (path / WEIGHTS).is_file():
        raise RelposError(f"network={path}: no finished run and no model folder ({WEIGHTS} is missing)")
    return Trained(path.resolve().name, path, path / WEIGHTS, store=store)


def _of_run(folder: Path, record: dict[str, Any]) -> Trained:
    stage, state = record.get("stage"), record.get("state")
    if stage == "finetune":
        start = (record.get("inputs") or {}).get("start")
        raise RelposError(
            f"network={folder}: a fine-tuned classifier predicts no words; name its pre-training{f', {start}' * bool(start)}"
        )
    if stage != "pretrain":
        raise RelposError(f"network={folder}: a run of stage {stage} holds no network; a pre-training is expected")
    if state != "finished":
        raise RelposError(f"network={folder}: this pre-training is not finished (its record says {state})")
    config: Any = OmegaConf.load(folder / "config.yaml")
    model = folder / "model"
    return Trained(
        folder.resolve().name,
        model,
        model / WEIGHTS,
        run=folder,
        store=Path(record["inputs"]["store"]),
        packing=config.packing,
        length=config.length,
        seed=config.seed,
    )
