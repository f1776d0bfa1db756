"""`relpos export`: a run as a folder that Hugging Face's `transformers` opens."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.files import read_yaml
from relpos.measures.kept import kept
from relpos.measures.measure import NATS, measures
from relpos.pretrained.files import OWN, is_published
from relpos.runs.card import Origin, card
from relpos.runs.networks import Network, resolve
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
    name, origin = (given.run or folder).resolve().name, _origin(given)

    def readme(config: dict[str, Any]) -> str:
        return card(name, config, record, settings, origin)

    labels = (record.get("meaning", {}).get("task") or {}).get("labels")
    config = write(target, model, settings, given.tokenizer(), readme, list(labels) if labels else None)
    how = (
        "import relpos, then AutoModel…, or relpos.load; without relpos AutoModel… with trust_remote_code=True"
        if config["model_type"] == OWN
        else "AutoModel… of transformers, or relpos.load"
    )
    print(f"{config['architectures'][0]}: {how}", file=sys.stderr)
    return str(target)


def _origin(network: Network) -> Origin:
    if network.run is None:
        return Origin()
    # The run's folder may be a stranger's, so that nothing in the file is resolved.
    config: Any = read_yaml(network.run / "config.yaml")
    told = [config.get(key) for key in ("table", "row")] if isinstance(config, dict) else [None, None]
    table, row = (name if isinstance(name, str) and name.isprintable() and "${" not in name else None for name in told)
    command = None
    if table and row:
        command = f"relpos reproduce table={table} 'rows=[{row}]'"
    elif (typed := str(network.record.get("command", ""))).startswith(("relpos pretrain", "relpos finetune")):
        command = re.sub(r"(?<==)/\S*/", "", typed)  # a card is published, and says nothing about a machine
    return Origin(table, row, _question(table), command, _measured(network), network.share)


def _measured(network: Network) -> dict[str, str]:
    """What `relpos order` has measured of the network: the column, and on how much → its value with its interval."""
    found: dict[str, str] = {}
    for measure in measures():
        for entry in kept(network.run, measure.name) if network.run else ():
            if entry.share != network.share:
                continue
            for column in measure.columns if network.is_snapshot else measure.at_end:
                if figure := measure.figure(column.name, entry.results):
                    examples, n = entry.meaning.get("examples"), figure.n
                    on = f"{examples} examples" if examples else f"{n} pairs" if n else ""
                    title = ", ".join(filter(None, (column.title, NATS if column.metric == NATS else "", on)))
                    interval = f" ({figure.interval[0]:.3f} to {figure.interval[1]:.3f})" if figure.interval else ""
                    found[title] = f"{figure.value:.3f}{interval}"
    return found


def _question(table: str | None) -> str | None:
    """The question of the experiment file that a run was made for, if that file still exists."""
    if not table:
        return None
    try:
        return experiment.load(table).question
    except RelposError:
        return None
