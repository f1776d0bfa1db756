"""`relpos export`: a run as a folder that Hugging Face's `transformers` opens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.files import read_yaml
from relpos.pretrained.files import OWN, is_published
from relpos.runs.card import card
from relpos.runs.networks import resolve
from relpos.tables import experiment
from relpos.train.export import export as write
from relpos.train.weights import read_model_config


def export(network: str, to: str) -> str:
    """Writes the folder `to` and returns it; prints on stderr which kind of model it holds.

    Raises:
        RelposError: `network` names no finished network, or `to` has files.
    """
    given, target = resolve(network), Path(to).expanduser()
    folder, record = given.folder, given.record
    if is_published(folder):
        raise RelposError(f"network={folder}: this is a folder of Hugging Face already")
    settings: dict[str, Any] = read_model_config(folder)
    model = given.load()
    table = _table(given.run / "config.yaml") if given.run else None
    name = (given.run or folder).resolve().name

    def readme(config: dict[str, Any]) -> str:
        return card(name, config, record, settings, _question(table))

    labels = (record.get("meaning", {}).get("task") or {}).get("labels")
    config = write(target, model, settings, given.tokenizer(), readme, list(labels) if labels else None)
    how = (
        "import relpos, then AutoModel…, or relpos.load; without relpos AutoModel… with trust_remote_code=True"
        if config["model_type"] == OWN
        else "AutoModel… of transformers, or relpos.load"
    )
    print(f"{config['architectures'][0]}: {how}", file=sys.stderr)
    return str(target)


def _table(config: Path) -> Any:
    """The table that a run was made for; its folder may be a stranger's, so that nothing in the file is resolved."""
    content = read_yaml(config)
    return content.get("table") if isinstance(content, dict) else None


def _question(table: Any) -> str | None:
    """The question of the experiment file that a run was made for, if that file still exists."""
    if not table or not isinstance(table, str):
        return None
    try:
        return experiment.load(table).question
    except RelposError:
        return None
