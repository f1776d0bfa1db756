"""`relpos export`: a run as a folder that Hugging Face's `transformers` opens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from relpos.claims import claim as claim_files
from relpos.errors import RelposError, say
from relpos.measures.kept import kept
from relpos.measures.measure import NATS, measures
from relpos.places import expanded
from relpos.pretrained.files import OWN, is_published
from relpos.ranges import Positive
from relpos.readers import read_json, read_yaml
from relpos.runs.networks import Network, resolve
from relpos.runs.run import runs_root
from relpos.runs.shelf import END
from relpos.tables import experiment
from relpos.train.card import Origin, card
from relpos.train.export import export as write
from relpos.train.weights import read_model_config


def export(network: str, to: str, words: Positive | None) -> str:
    """Writes the folder `to` and returns it; prints on stderr which kind of model it holds.

    Args:
        words: millions of words that the whole training has read. The folder then holds one for each revision: `main`, and
            `chck_5M` of the snapshot with which 5 million words have been read.

    Raises:
        RelposError: `network` names no finished network, `to` has files, or `words` is given and the run has no snapshots.
    """
    given, target = resolve(network), expanded(to)
    revisions = {target: given} if words is None else {target / name: at for name, at in _revisions(given, words).items()}
    for folder, revision in revisions.items():
        config = _write(revision, folder)
    how = (
        "import relpos, then AutoModel…, or relpos.load; without relpos AutoModel… with trust_remote_code=True"
        if config["model_type"] == OWN
        else "AutoModel… of transformers, or relpos.load"
    )
    say(f"{config['architectures'][0]}: {how}")
    return str(target)


def _revisions(network: Network, words: float) -> dict[str, Network]:
    """Name of a revision as BabyLM asks for them → the network; `words` in millions."""
    snapshots = network.snapshots()
    if network.is_snapshot or not snapshots:
        raise RelposError(
            f"words={words:g}: {network.folder} is no run with snapshots; pre-train it with snapshots=[1,2,5,10,20,50]"
        )
    return {"main": network} | {f"chck_{share * words / 100:g}M": at for share, at in (snapshots | {END: network}).items()}


def _write(given: Network, target: Path) -> dict[str, Any]:
    """Writes one network; returns the content of `config.json`."""
    folder, record = given.folder, given.record
    if is_published(folder):
        raise RelposError(f"network={folder}: this is a folder of Hugging Face already")
    settings: dict[str, Any] = read_model_config(folder)
    model = given.load()
    name, origin = (given.run or folder).resolve().name, _origin(given)

    def readme(config: dict[str, Any]) -> str:
        return card(name, config, record, settings, origin)

    # Only a fine-tuning has a task, and a regression no labels.
    labels = (record.get("meaning", {}).get("task") or {}).get("labels")
    return write(target, model, settings, given.tokenizer(), readme, list(labels) if labels else None)


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
        command = _without_folders(typed)
    # The text of a fine-tuning's configuration need not be what its network was trained on.
    data = config.get("data") if isinstance(config, dict) and network.record.get("stage") == "pretrain" else None
    claims, datasets = _claims(network), _datasets(data)
    return Origin(table, row, _question(table), command, _measured(network), network.share, claims, datasets)


def _datasets(data: Any) -> list[str]:
    """The ids of the hub's data sets in the `data` of a configuration, which may be a stranger's."""
    texts = data.get("texts") if isinstance(data, dict) else None
    named = [text.get("id") for text in texts if isinstance(text, dict)] if isinstance(texts, list) else []
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)))


def _without_folders(command: str) -> str | None:
    """The command with each path cut to its last part, since a card is published and says nothing about a machine; None where it
    cannot be read."""
    try:
        return shlex.join(re.sub(r"""(?<=[=,'"[])/[^,\]]*/""", "", word) for word in shlex.split(command))
    except ValueError:  # a quote is open, in a record of somebody else
        return None


def _claims(network: Network) -> list[str]:
    """What `relpos claims` found last, after this pre-training, about its row at its scale: a line for each claim."""
    run = network.run
    if run is None or network.is_snapshot:
        return []
    # A page from before this run was finished cannot have counted it.
    since = (run / "record.json").stat().st_mtime
    times = {page: page.stat().st_mtime for page in (runs_root() / "claims").glob("*.json")}
    pages = [page for page in sorted(times, key=times.__getitem__) if times[page] >= since]
    here = _rows_at_scales(run) if pages else []
    return list(
        {
            claim["id"]: f"{claim['id']}, {finding['word']}: {claim['says']} ({claim['source']}; {finding['scale']})"
            for page in pages
            for claim in read_json(page)["claims"]
            for finding in claim["findings"]
            if any(finding["scale"] == label and row in claim["rows"] for label, row in here)
        }.values()
    )


def _rows_at_scales(run: Path) -> list[tuple[str, str]]:
    """The scale with which claims are tested, and its row, that a pre-training belongs to; empty where it counts for none."""
    return [
        (scale.label, row)
        for scale in claim_files.scales()
        for row, folders in scale.folders.items()
        if run.resolve() in {folder.resolve() for folder in folders.values()}
    ]


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
