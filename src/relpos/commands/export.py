"""`relpos export`: a network as a folder that Hugging Face's `transformers` opens, with a model
card as the hub reads it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from relpos.claims import claim as claim_files
from relpos.data.fast_tokenizer import write_fast_tokenizer
from relpos.data.published_tokenizer import PublishedTokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError, printable, say
from relpos.files import replacing_folder, write_json, write_text
from relpos.measures.measure import NATS, Figure, MeasuredColumn, measures
from relpos.model.heads import Classifier, MaskedLM
from relpos.places import expanded
from relpos.pretrained.export import to_huggingface
from relpos.pretrained.files import OWN, is_published
from relpos.process import without_keys
from relpos.ranges import Positive
from relpos.readers import read_json, read_yaml
from relpos.runs.networks import Network, resolve
from relpos.runs.run import runs_root
from relpos.runs.shelf import END, final
from relpos.stages.measure import kept
from relpos.tables import experiment
from relpos.train import standalone
from relpos.train.network import class_of
from relpos.train.weights import WEIGHTS, read_model_config, save_tensors

LOAD = """from transformers import pipeline

pipeline("fill-mask", model="FOLDER")("the cat [MASK] on the mat")"""
CAUSAL = """from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForCausalLM.from_pretrained("FOLDER")
model(**tokenizer("the cat sat on", return_tensors="pt")).logits[0, -1].argmax()"""
CLASSIFIER = """from transformers import pipeline

pipeline("text-classification", model="FOLDER")({"text": "first text", "text_pair": "second text"})"""
OPENS_OWN = (
    "`transformers` has no such network. With relpos, which registers a class of its own, no code "
    "of this folder is run; without "
    "it, `trust_remote_code=True` runs `modeling_relpos.py`, which needs torch and transformers "
    "alone and computes the same."
)
LICENCE = (
    "Whoever trained the weights says under which licence they are, and in which language; both "
    "depend on the text that they were "
    "trained on, so that above stand `unknown` and `und` (undetermined): put the right words "
    "there. relpos itself is under the MIT "
    "licence."
)

FOLDERS = re.compile(
    # where a value begins with /, ~/, ~name/, ./ or ../
    r"""(?:^|(?<=[\s=,:'"\[{(]))(?=(?:\.\.?|~[\w.-]*)?/)"""
    # to its last /: within quotes, else before , ] } )
    r"""(?:(?<=')[^']*|(?<=")[^"]*|(?:\\.|[^,\]})\\])*)/"""
    r"""(?=[^/,\]})'"\s])"""  # behind which something stands
)
"""The folders before the last part of each path in a text. A card is published and must not
describe a machine."""


def export(network: str, to: str, words: Positive | None) -> str:
    """Writes the folder `to` and returns it; prints on stderr which kind of model it holds.

    Args:
        network: the exported network.
        to: the folder.
        words: millions of words that the whole training has read. The folder then holds a folder
            for each revision: `main`, and `chck_5M` for the snapshot after 5 million words.

    Raises:
        RelposError: `network` names no finished network, `to` has files, or `words` is given and
            the run has no snapshots.
    """
    source, target = resolve(network), expanded(to)
    revisions = {".": source} if words is None else _revisions(source, words)
    if is_published(source.folder):
        raise RelposError(f"network={source.folder}: this is a folder of Hugging Face already")
    settings: dict[str, Any] = read_model_config(source.folder)
    # Only a fine-tuning has a task, and a regression no labels.
    labels = (source.record.get("meaning", {}).get("task") or {}).get("labels")
    _refuse_filled(target)
    with replacing_folder(target) as whole:  # all revisions or none
        for name, at in revisions.items():
            text = partial(card, at, settings)
            config = write(
                whole / name,
                at.load(),
                settings,
                at.tokenizer(),
                text,
                list(labels) if labels else None,
            )
    how = "AutoModel… of transformers, or relpos.load"
    if config["model_type"] == OWN:
        how = "import relpos, then AutoModel…, or relpos.load; without relpos AutoModel… with trust_remote_code=True"
    say(f"{config['architectures'][0]}: {how}")
    return str(target)


def _revisions(network: Network, words: float) -> dict[str, Network]:
    """Name of a revision in BabyLM's form → the network; `words` in millions."""
    snapshots = network.snapshots()
    if network.is_snapshot or not snapshots:
        raise RelposError(
            f"words={words:g}: {network.folder} is no run with snapshots; pre-train it with "
            f"snapshots=[1,2,5,10,20,50]"
        )
    revisions = {"main": network}
    for share, snapshot in (snapshots | {END: network}).items():
        revisions[f"chck_{share * words / 100:g}M"] = snapshot
    return revisions


def write(
    folder: Path,
    model: MaskedLM | Classifier,
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    card: Callable[[dict[str, Any]], str],
    labels: list[str] | None = None,
) -> dict[str, Any]:
    """Writes a network as a model folder of Hugging Face, whole or not at all; returns the content
    of `config.json`.

    Args:
        folder: must not exist, or be empty.
        model: the network.
        settings: its configuration: `size`, `position`, `conv`, `vocabulary`, of a classifier also
            `outputs`.
        tokenizer: of the network.
        card: function that makes the text of the model card from the content of `config.json`.
        labels: names of a classifier's classes.

    Raises:
        RelposError: the folder has files, or cannot be written.
    """
    _refuse_filled(folder)
    classifies, causal = isinstance(model, Classifier), model.encoder.causal
    try:
        config, weights = to_huggingface(model, settings)
    except RelposError:  # transformers has no such network; it opens ours after `import relpos`, or with the code in the folder
        head = "CausalLM" if causal else "MaskedLM"
        if classifies:
            head = "SequenceClassification"
        # A class of relpos.train.huggingface.
        config = {"model_type": OWN, "architectures": [f"RelposFor{head}"]} | dict(settings)
        config["auto_map"] = standalone.AUTO_MAP
        weights = {name: value.detach() for name, value in model.named_parameters()}
    # Tensors in a file must be contiguous and may not share memory.
    tensors = {
        name: value.cpu().clone(memory_format=torch.contiguous_format)
        for name, value in weights.items()
    }
    config |= {
        "pad_token_id": tokenizer.pad,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
    }
    if isinstance(model, Classifier):
        names = labels or [f"LABEL_{number}" for number in range(model.classifier.out_features)]
        kind = "regression" if len(names) == 1 else "single_label_classification"
        config |= {
            "id2label": dict(enumerate(names)),
            "label2id": {name: number for number, name in enumerate(names)},
        }
        config |= {"problem_type": kind}
    with replacing_folder(folder) as temporary:
        write_json(temporary / "config.json", config)
        # A network of a class that transformers has needs no code of ours.
        if config["model_type"] == OWN:
            standalone.write(temporary, settings)
        # transformers' RoFormer has a table of positions, ours has none.
        longest = config.get("max_position_embeddings", model.encoder.position.max_length)
        # the fast tokenizer's file is its only one
        if not isinstance(tokenizer, PublishedTokenizer):
            tokenizer.save(temporary)
        types = settings["size"].get("token_types", 2)
        write_fast_tokenizer(
            temporary,
            tokenizer,
            longest,
            # In our pre-training all tokens have type 0; a fine-tuning gives the second text type
            # 1.
            second_type=int(classifies and types > 1),
            open_end=causal and not classifies,
            types=types > 0,
        )
        write_text(temporary / "README.md", card(config))
        save_tensors(tensors, temporary / WEIGHTS, {"format": "pt"})
    return config


def _refuse_filled(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RelposError(
            f"to={folder} already exists and is not an empty folder: name another one, or delete it"
        )


def card(network: Network, settings: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The text of the card. Paths and host names are left out.

    Args:
        network: the exported network.
        settings: the description of the network in its model folder: size, position, conv, …
        config: content of the exported `config.json`.
    """
    made_with: Any = {}
    if network.run:
        # The run's folder may be a stranger's, so that interpolations in the file are not resolved.
        made_with = read_yaml(network.run / "config.yaml")
        if not isinstance(made_with, dict):
            made_with = {}
    classifies, is_own = "outputs" in settings, config["model_type"] == OWN
    is_causal = settings["size"].get("attention") == "causal"
    task, example = "fill-mask", LOAD
    if is_causal:
        task, example = "text-generation", CAUSAL
    if classifies:
        task, example = "text-classification", CLASSIFIER
    # Without a second `relpos`, the `model_type` of an exported network of ours.
    tags = list(dict.fromkeys(["relpos", str(config["model_type"])]))
    front = {
        "library_name": "transformers",
        "pipeline_tag": task,
        "tags": tags,
        "license": "unknown",
        "language": "und",
    }
    # The network of a fine-tuning may be trained on other text than that of the fine-tuning's
    # configuration.
    if network.is_pretraining and (datasets := _datasets(made_with.get("data"))):
        front["datasets"] = datasets
    trained = (
        f"trained with relpos, after {network.share} % of its steps."
        if network.share < END
        else "trained with relpos."
    )
    if not is_own:
        examples, opens = [example], f"It opens as `{config['architectures'][0]}`."
    else:
        remote = example.replace('"FOLDER")', '"FOLDER", trust_remote_code=True)')
        examples = [
            f"import relpos  # lets transformers open it; no remote code\n{example}",
            remote,
        ]
        opens = OPENS_OWN
    question, origin = _made(network, made_with)
    parts = [
        f"---\n{OmegaConf.to_yaml(OmegaConf.create(front))}---",
        f"# {_escaped((network.run or network.folder).resolve().name)}",
        *question,
        f"{'A decoder' if is_causal else 'An encoder'} with the position scheme "
        f"{class_of(settings['position'])} and the "
        f"convolution {class_of(settings['conv'])}, {trained} {opens}",
        *(_fenced("python", code) for code in examples),
        *origin,
        *_tested(network),
        *_record(network),
        f"## Network\n\n{_fenced('yaml', OmegaConf.to_yaml(OmegaConf.create(dict(settings))))}",
        f"## Licence\n\n{LICENCE}",
    ]
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    r"""One line of Markdown that shows a text, which may be a stranger's, as it is.

    >>> print(_escaped("a_b [x](y) | <b>"))
    a_b \[x\](y) \| \<b\>
    """
    return re.sub(
        r"[\\`*\[\]<>|#!~&]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(printable(text).split())
    )


def _fenced(language: str, text: str) -> str:
    """A block of code in Markdown with a fence longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _made(network: Network, made_with: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Sections with the question of the table for which a network was trained; and with its row and
    the command that makes it."""
    table, row = _plain_name(made_with.get("table")), _plain_name(made_with.get("row"))
    origin, command = [], None
    if table and row:
        origin = [f"Row `{row}` of the table `{table}`."]
        command = f"relpos reproduce table={table} 'rows=[{row}]'"
    elif (typed := str(network.record.get("command", ""))).startswith(
        ("relpos pretrain", "relpos finetune")
    ):
        command = _without_folders(typed)
    if command:
        origin.append(_fenced("sh", command))
    question = []
    if table:
        with suppress(RelposError):  # the experiment file may be gone
            question = [f"Trained for the question: {experiment.load(table).question}"]
    return question, ["## Made by", *origin] if origin else []


def _plain_name(name: Any) -> str | None:
    """A name that can stand in Markdown and in a shell command; None for any other value."""
    if isinstance(name, str) and name.isprintable() and not {*"`$"} & {*name}:
        return name
    return None


def _datasets(data: Any) -> list[str]:
    """The ids of the hub's data sets in the `data` of a configuration, which may be a
    stranger's."""
    texts = data.get("texts") if isinstance(data, dict) else None
    if not isinstance(texts, list):
        return []
    ids = []
    for text in texts:
        name = text.get("id") if isinstance(text, dict) else None
        if isinstance(name, str) and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
            ids.append(name)
    return list(dict.fromkeys(ids))


def _without_folders(command: str) -> str | None:
    """The command with each path cut to its last part; None if it cannot be parsed."""
    try:
        return shlex.join(FOLDERS.sub("", word) for word in without_keys(shlex.split(command)))
    except ValueError:  # a quote is open, in a record of somebody else
        return None


def _tested(network: Network) -> list[str]:
    """A section with the last verdicts of `relpos claims`, after this pre-training, on its row at
    its scale."""
    run = network.run
    if run is None or network.is_snapshot:
        return []
    # A page that is older than this run does not count it.
    since = (run / "record.json").stat().st_mtime
    times = {page: page.stat().st_mtime for page in (runs_root() / "claims").glob("*.json")}
    pages = [page for page in sorted(times, key=times.__getitem__) if times[page] >= since]
    if not pages:
        return []
    # Label of a scale → the rows of this run there.
    rows_of: dict[str, set[str]] = {}
    for scale in claim_files.scales():
        for row, folders in scale.folders.items():
            if run.resolve() in {folder.resolve() for folder in folders.values()}:
                rows_of.setdefault(scale.label, set()).add(row)
    lines = {}
    for page in pages:
        for claim in read_json(page)["claims"]:
            for finding in claim["findings"]:
                if rows_of.get(finding["scale"], set()) & {*claim["rows"]}:
                    place = f"{claim['source']}; {finding['scale']}"
                    lines[claim["id"]] = (
                        f"- {claim['id']}, {finding['word']}: {claim['says']} ({place})"
                    )
    if not lines:
        return []
    return ["## Claims\n\nTested with this network and others:\n\n" + "\n".join(lines.values())]


def _record(network: Network) -> list[str]:
    """Sections with the record's training, metrics, versions and hardware, and with later
    measures."""
    record = network.record
    if not record:
        return ["No record of the training came with this network."]
    rows: dict[str, str] = {}
    # The record's figures are those of the last step.
    if network.share == END:
        for name, value in final(record).items():
            rows[name] = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    rows |= _measured(network)
    # The section `Network` has the network's own description.
    described = ("size", "position", "conv")
    meaning = {name: value for name, value in record["meaning"].items() if name not in described}
    keys = ("stage", "identity", "commit", "versions", "hardware", "seconds")
    facts = {key: record.get(key) for key in keys}
    facts |= {"commit": facts["commit"] or "not recorded", "meaning": _without_paths(meaning)}
    sections = []
    if rows:
        lines = [f"| {_escaped(name)} | {value} |" for name, value in rows.items()]
        sections.append("## Results\n\n| | |\n|---|---:|\n" + "\n".join(lines))
    return [
        *sections,
        f"## Training\n\n{_fenced('yaml', OmegaConf.to_yaml(OmegaConf.create(facts)))}",
    ]


def _measured(network: Network) -> dict[str, str]:
    """Title of a column, with the number of examples → value and interval that `relpos order` has
    measured of the network."""
    texts: dict[str, list[str]] = {}
    if network.run is None:
        return {}
    for measure in measures():
        columns = measure.columns if network.is_snapshot else measure.at_end
        for entry in kept(network.run, measure.name):
            if entry.share != network.share:
                continue
            for column in columns:
                if figure := measure.figure(column.name, entry.results):
                    # Files with equally many pairs have the same title, and both values are shown.
                    texts.setdefault(_title(column, figure, entry.meaning), []).append(
                        _with_interval(figure)
                    )
    return {title: "; ".join(dict.fromkeys(of_title)) for title, of_title in texts.items()}


def _title(column: MeasuredColumn, figure: Figure, meaning: Mapping[str, Any]) -> str:
    parts = [column.title]
    if column.metric == NATS:
        parts.append(NATS)
    if meaning.get("examples"):
        parts.append(f"{meaning['examples']} examples")
    elif figure.n:
        parts.append(f"{figure.n} pairs")
    if meaning.get("form") == "plain":
        parts.append("plain")
    return ", ".join(filter(None, parts))


def _with_interval(figure: Figure) -> str:
    if not figure.interval:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} ({figure.interval[0]:.3f} to {figure.interval[1]:.3f})"


def _without_paths(value: Any) -> Any:
    """The value with every path cut to its last part."""
    if isinstance(value, Mapping):
        return {str(key): _without_paths(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(part) for part in value]
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    return value
