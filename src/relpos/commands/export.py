"""`relpos export`: a network as a folder that Hugging Face's `transformers` opens, with a model
card as the hub reads it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch
from omegaconf import OmegaConf

from relpos.data.fast_tokenizer import write_fast_tokenizer
from relpos.data.published_tokenizer import PublishedTokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError, printable, say
from relpos.files import replacing_folder, write_json, write_text
from relpos.measures.measure import NATS, Figure, MeasuredColumn, measures
from relpos.model.architecture import Architecture, class_of
from relpos.model.heads import Classifier, MaskedLM
from relpos.places import expanded
from relpos.pretrained.export import to_huggingface
from relpos.pretrained.family import Config
from relpos.pretrained.files import OWN, form_of
from relpos.process import without_keys
from relpos.ranges import Positive
from relpos.readers import besides, read_yaml
from relpos.runs.networks import Network, resolve
from relpos.runs.shelf import END
from relpos.stages.measure import kept
from relpos.tables import experiment
from relpos.tables.render.text import escape
from relpos.train import standalone
from relpos.train.weights import WEIGHTS, read_architecture, save_tensors

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
    "of this folder is run; without it, `trust_remote_code=True` runs `modeling_relpos.py`, which "
    "needs torch and transformers alone and computes the same."
)
LICENCE = (
    "Whoever trained the weights says under which licence they are, and in which language; both "
    "depend on the text that they were trained on, so that above stand `unknown` and `und` "
    "(undetermined): put the right words there. relpos itself is under the MIT licence."
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
    source = resolve(network)
    target = expanded(to)
    if form_of(source.folder) == "published":
        raise RelposError(f"network={source.folder}: this is a folder of Hugging Face already")
    revisions = {".": source} if words is None else _revisions(source, words)
    architecture = read_architecture(source.folder)
    labels = None
    match source.record:
        case {"meaning": {"task": {"labels": [*names]}}}:  # a regression has none
            labels = list(map(str, names))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RelposError(
            f"to={target} already exists and is not an empty folder: name another one, or delete it"
        )
    with replacing_folder(target) as whole:  # all revisions or none
        for name, at in revisions.items():
            text = partial(card, at, architecture)
            config = write(whole / name, at.load(), at.tokenizer(), text, labels)
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
    tokenizer: Tokenizer,
    card: Callable[[Config], str],
    labels: list[str] | None = None,
) -> Config:
    """Writes a network as a model folder of Hugging Face, whole or not at all; returns the content
    of `config.json`.

    Args:
        folder: must not exist, or be empty.
        model: the network.
        tokenizer: of the network.
        card: function that makes the text of the model card from the content of `config.json`.
        labels: names of a classifier's classes.

    Raises:
        RelposError: the folder has files, or cannot be written.
    """
    architecture = model.architecture
    causal = model.encoder.causal
    try:
        config, weights = to_huggingface(model)
    except RelposError:  # transformers has no such network; it opens ours after `import relpos`, or with the code in the folder
        head = "MaskedLM"
        if isinstance(model, Classifier):
            head = "SequenceClassification"
        elif causal:
            head = "CausalLM"
        # A class of relpos.train.huggingface.
        config = {"model_type": OWN, "architectures": [f"RelposFor{head}"], **architecture.plain()}
        config["auto_map"] = standalone.AUTO_MAP
        weights = dict(model.named_parameters())
    # Tensors in a file must be contiguous and may not share memory.
    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in weights.items()
    }
    config["pad_token_id"] = tokenizer.pad
    config["dtype"] = str(next(model.parameters()).dtype).removeprefix("torch.")
    types, second_type, open_end = architecture.size.token_types, 0, causal
    if isinstance(model, Classifier):
        names = labels or [f"LABEL_{number}" for number in range(model.classifier.out_features)]
        config["id2label"] = dict(enumerate(names))
        config["label2id"] = {name: number for number, name in enumerate(names)}
        config["problem_type"] = "regression" if len(names) == 1 else "single_label_classification"
        # In our pre-training all tokens have type 0; a fine-tuning gives the second text type 1.
        second_type, open_end = int(types > 1), False
    with replacing_folder(folder) as temporary:
        write_json(temporary / "config.json", config)
        # A network of a class that transformers has needs no code of ours.
        if config["model_type"] == OWN:
            standalone.write(temporary, architecture)
        # transformers' RoFormer has a table of positions, ours has none.
        longest = config.get("max_position_embeddings", model.encoder.position.max_length)
        # the fast tokenizer's file is its only one
        if not isinstance(tokenizer, PublishedTokenizer):
            tokenizer.save(temporary)
        write_fast_tokenizer(temporary, tokenizer, longest, second_type, open_end, types > 0)
        write_text(temporary / "README.md", card(config))
        save_tensors(tensors, temporary / WEIGHTS, {"format": "pt"})
    return config


def card(network: Network, architecture: Architecture, config: Config) -> str:
    """The text of the card. Paths and host names are left out.

    Args:
        network: the exported network.
        architecture: of the network.
        config: content of the exported `config.json`.
    """
    # The run's folder may be a stranger's, so that interpolations in the file are not resolved.
    made_with = read_yaml(network.run / "config.yaml") if network.run else None
    is_own = config["model_type"] == OWN
    name = "An encoder"
    task, example = "fill-mask", LOAD
    if architecture.outputs:
        task, example = "text-classification", CLASSIFIER
    elif architecture.size.causal:
        task, example, name = "text-generation", CAUSAL, "A decoder"
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
    if network.is_pretraining and (datasets := _datasets(made_with)):
        front["datasets"] = datasets
    trained = "trained with relpos."
    if network.share < END:
        trained = f"trained with relpos, after {network.share} % of its steps."
    if is_own:
        remote = example.replace('"FOLDER")', '"FOLDER", trust_remote_code=True)')
        local = f"import relpos  # lets transformers open it; no remote code\n{example}"
        examples, opens = [local, remote], OPENS_OWN
    else:
        examples, opens = [example], f"It opens as `{config['architectures'][0]}`."
    question, origin = _made(network, made_with)
    parts = [
        f"---\n{_yaml(front)}---",
        f"# {escape(printable((network.run or network.folder).resolve().name))}",
        *question,
        f"{name} with the position scheme {class_of(architecture.position)} and the "
        f"convolution {class_of(architecture.conv)}, {trained} {opens}",
        *(_fenced("python", code) for code in examples),
        *origin,
        *_record(network),
        f"## Network\n\n{_fenced('yaml', _yaml(architecture.plain()))}",
        f"## Licence\n\n{LICENCE}",
    ]
    return "\n\n".join(parts) + "\n"


def _yaml(content: Config) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(dict(content)))


def _fenced(language: str, text: str) -> str:
    """A block of code in Markdown with a fence longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _made(network: Network, made_with: object) -> tuple[list[str], list[str]]:
    """Sections with the question of the table for which a network was trained; and with its row and
    the command that makes it."""
    question, origin, command = [], [], None
    match made_with, network.record:
        case {"table": str(table), "row": str(row)}, _ if _is_plain(table + row):
            origin = [f"Row `{row}` of the table `{table}`."]
            command = f"relpos reproduce table={table} 'rows=[{row}]'"
            with suppress(RelposError):  # the experiment file may be gone
                question = [f"Trained for the question: {experiment.load(table).question}"]
        case _, {"command": str(typed)} if typed.startswith(("relpos pretrain", "relpos finetune")):
            command = _without_folders(typed)
    if command:
        origin.append(_fenced("sh", command))
    return question, ["## Made by", *origin] if origin else []


def _is_plain(text: str) -> bool:
    """Whether names can stand in Markdown and in a shell command."""
    return text.isprintable() and not {*"`$"} & {*text}


def _datasets(made_with: object) -> list[str]:
    """The ids of the hub's data sets in a configuration, which may be a stranger's."""
    ids = dict[str, None]()
    match made_with:
        case {"data": {"texts": [*texts]}}:
            for text in texts:
                match text:
                    case {"id": str(name)} if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
                        ids[name] = None
    return list(ids)


def _without_folders(command: str) -> str | None:
    """The command with each path cut to its last part; None if it cannot be parsed."""
    try:
        return shlex.join(FOLDERS.sub("", word) for word in without_keys(shlex.split(command)))
    except ValueError:  # a quote is open, in a record of somebody else
        return None


def _record(network: Network) -> list[str]:
    """Sections with the record's training, metrics, versions and hardware, and with later
    measures."""
    record = network.record
    if not record:
        return ["No record of the training came with this network."]
    rows: dict[str, str] = {}
    # The record's figures are those of the last step.
    if network.share == END:
        for name, value in record.figures.items():
            rows[name] = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    rows |= _measured(network)
    keys = ("stage", "identity", "commit", "versions", "hardware", "seconds")
    facts: dict[str, object] = {key: record.get(key) for key in keys}
    # The section `Network` has the network's own description.
    described = ("size", "position", "conv")
    meaning = besides(record.meaning, described)
    facts |= {"commit": facts["commit"] or "not recorded", "meaning": _without_paths(meaning)}
    sections = [f"## Training\n\n{_fenced('yaml', _yaml(facts))}"]
    if rows:
        lines = [f"| {escape(printable(name))} | {value} |" for name, value in rows.items()]
        sections.insert(0, "## Results\n\n| | |\n|---|---:|\n" + "\n".join(lines))
    return sections


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


def _title(column: MeasuredColumn, figure: Figure, meaning: Config) -> str:
    parts = [column.title]
    if column.metric == NATS:
        parts.append(NATS)
    match meaning:
        case {"examples": int(count)}:
            parts.append(f"{count} examples")
        case _ if figure.n:
            parts.append(f"{figure.n} pairs")
    match meaning:
        case {"form": "plain"}:
            parts.append("plain")
    return ", ".join(parts)


def _with_interval(figure: Figure) -> str:
    if not figure.interval:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} ({figure.interval[0]:.3f} to {figure.interval[1]:.3f})"


def _without_paths(value: object) -> object:
    """The value with every path cut to its last part."""
    if isinstance(value, Mapping):
        return {str(key): _without_paths(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_without_paths, value))
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    return value
