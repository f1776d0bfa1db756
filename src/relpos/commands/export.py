"""`relpos export`: a run as a folder that Hugging Face's `transformers` opens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from relpos.data.published_tokenizer import load_tokenizer
from relpos.errors import RelposError
from relpos.pretrained.files import OWN, is_published
from relpos.runs.card import card
from relpos.runs.run import read_record
from relpos.runs.trained import trained
from relpos.tables import experiment
from relpos.tables.named_runs import named_folder
from relpos.train.export import export as write
from relpos.train.weights import load_model, load_weights, read_model_config


def export(cfg: DictConfig) -> str:
    """Writes the folder `to` and returns it; prints on stderr which kind of model it holds.

    Raises:
        RelposError: `network` names no finished network, or `to` has files.
    """
    named, to = named_folder(str(cfg.network)), Path(str(cfg.to)).expanduser()
    folder, weights, record = _source(named)
    if is_published(folder):
        raise RelposError(f"network={named}: this is a folder of Hugging Face already")
    settings: dict[str, Any] = read_model_config(folder)
    model = load_model(folder)
    if weights is not None:
        load_weights(model, weights)
    config_file = folder.parent / "config.yaml"
    run: Any = OmegaConf.load(config_file) if record and config_file.is_file() else {}
    name = folder.parent.resolve().name if record else folder.resolve().name

    def readme(config: dict[str, Any]) -> str:
        return card(name, config, record, settings, _question(run.get("table")))

    labels = (record.get("meaning", {}).get("task") or {}).get("labels")
    config = write(to, model, settings, load_tokenizer(folder), readme, list(labels) if labels else None)
    how = (
        "import relpos, then AutoModel…, or relpos.load"
        if config["model_type"] == OWN
        else "AutoModel… of transformers, or relpos.load"
    )
    print(f"{config['architectures'][0]}: {how}", file=sys.stderr)
    return str(to)


def _source(named: Path) -> tuple[Path, Path | None, dict[str, Any]]:
    """Model folder, weights file if it is a snapshot's, and record of the run or folder that the user named."""
    record = read_record(named)
    if named.name == "model" and not record:
        return named, None, read_record(named.resolve().parent)
    if record.get("stage") == "finetune":
        if record.get("state") != "finished":
            raise RelposError(f"network={named}: this fine-tuning is not finished (its record says {record.get('state')})")
        return named / "model", None, record
    subject = trained(named)
    is_snapshot = subject.weights.parent != subject.folder
    return subject.folder, subject.weights if is_snapshot else None, read_record(subject.run) if subject.run else {}


def _question(table: str | None) -> str | None:
    """The question of the experiment file that a run was made for, if that file still exists."""
    if not table:
        return None
    try:
        return experiment.load(table).question
    except RelposError:
        return None
