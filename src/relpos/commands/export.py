"""`relpos export`: a network as a folder that Hugging Face's `transformers` opens, with a model card as the hub reads it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
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
from relpos.measures.kept import kept
from relpos.measures.measure import NATS, measures
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
    "`transformers` has no such network. With relpos, which registers a class of its own, no code of this folder is run; without "
    "it, `trust_remote_code=True` runs `modeling_relpos.py`, which needs torch and transformers alone and computes the same."
)
LICENCE = (
    "Whoever trained the weights says under which licence they are, and in which language; both depend on the text that they were "
    "trained on, so that above stand `unknown` and `und` (undetermined): put the right words there. relpos itself is under the MIT "
    "licence."
)

FOLDERS = re.compile(
    r"""(?:^|(?<=[\s=,:'"\[{(]))(?=(?:\.\.?|~[\w.-]*)?/)"""  # where a value begins with /, ~/, ~name/, ./ or ../
    r"""(?:(?<=')[^']*|(?<=")[^"]*|(?:\\.|[^,\]})\\])*)/"""  # to its last /: within quotes, else before , ] } )
    r"""(?=[^/,\]})'"\s])"""  # behind which something stands
)
"""The folders before the last part of each path in a text: a card is published, and says nothing about a machine."""


def export(network: str, to: str, words: Positive | None) -> str:
    """Writes the folder `to` and returns it; prints on stderr which kind of model it holds.

    Args:
        words: millions of words that the whole training has read. The folder then holds one for each revision: `main`, and
            `chck_5M` of the snapshot with which 5 million words have been read.

    Raises:
        RelposError: `network` names no finished network, `to` has files, or `words` is given and the run has no snapshots.
    """
    given, target = resolve(network), expanded(to)
    revisions = {".": given} if words is None else _revisions(given, words)
    if is_published(given.folder):
        raise RelposError(f"network={given.folder}: this is a folder of Hugging Face already")
    settings: dict[str, Any] = read_model_config(given.folder)
    # Only a fine-tuning has a task, and a regression no labels.
    labels = (given.record.get("meaning", {}).get("task") or {}).get("labels")
    _refuse_filled(target)
    with replacing_folder(target) as whole:  # all revisions or none
        for name, at in revisions.items():
            text = partial(card, at, settings)
            config = write(whole / name, at.load(), settings, at.tokenizer(), text, list(labels) if labels else None)
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


def write(
    folder: Path,
    model: MaskedLM | Classifier,
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    card: Callable[[dict[str, Any]], str],
    labels: list[str] | None = None,
) -> dict[str, Any]:
    """Writes a network as a model folder of Hugging Face, whole or not at all; returns the content of `config.json`.

    Args:
        folder: must not exist, or be empty.
        model: the network.
        settings: its configuration: `size`, `position`, `conv`, `vocabulary`, of a classifier also `outputs`.
        tokenizer: of the network.
        card: makes the text of the model card from the content of `config.json`.
        labels: names of a classifier's classes.

    Raises:
        RelposError: the folder has files, or cannot be written.
    """
    _refuse_filled(folder)
    classifies, causal = isinstance(model, Classifier), model.encoder.causal
    # A class of relpos.train.huggingface.
    ours = f"RelposFor{'SequenceClassification' if classifies else 'CausalLM' if causal else 'MaskedLM'}"
    try:
        config, weights = to_huggingface(model, settings)
    except RelposError:  # transformers has no such network; it opens ours after `import relpos`, or with the code in the folder
        config = {"model_type": OWN, "architectures": [ours]} | dict(settings)
        config["auto_map"] = standalone.AUTO_MAP
        weights = {name: value.detach() for name, value in model.named_parameters()}
    # In a file, parts of one tensor may not share memory, and numbers must lie side by side.
    tensors = {name: value.cpu().clone(memory_format=torch.contiguous_format) for name, value in weights.items()}
    config |= {"pad_token_id": tokenizer.pad, "dtype": str(next(model.parameters()).dtype).removeprefix("torch.")}
    if isinstance(model, Classifier):
        names = labels or [f"LABEL_{number}" for number in range(model.classifier.out_features)]
        kind = "regression" if len(names) == 1 else "single_label_classification"
        config |= {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
        config |= {"problem_type": kind}
    with replacing_folder(folder) as temporary:
        write_json(temporary / "config.json", config)
        # A network of a class that transformers has needs no code of ours.
        if config["model_type"] == OWN:
            standalone.write(temporary, settings)
        # RoFormer in transformers has a table of its positions; ours needs none.
        longest = config.get("max_position_embeddings", model.encoder.position.max_length)
        if not isinstance(tokenizer, PublishedTokenizer):  # which has no other file than the fast tokenizer's
            tokenizer.save(temporary)
        types = settings["size"].get("token_types", 2)
        write_fast_tokenizer(
            temporary,
            tokenizer,
            longest,
            # In our pre-training all tokens have type 0; a fine-tuning gives the second text type 1.
            second_type=int(classifies and types > 1),
            open_end=causal and not classifies,
            types=types > 0,
        )
        write_text(temporary / "README.md", card(config))
        save_tensors(tensors, temporary / WEIGHTS, {"format": "pt"})
    return config


def _refuse_filled(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RelposError(f"to={folder} already exists and is not an empty folder: name another one, or delete it")


def card(given: Network, settings: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The text of the card. Paths and host names are left out.

    Args:
        settings: the description of the network in its model folder: size, position, conv, …
        config: content of the exported `config.json`.
    """
    # The run's folder may be a stranger's, so that nothing in the file is resolved.
    made_with: Any = read_yaml(given.run / "config.yaml") if given.run else {}
    made_with = made_with if isinstance(made_with, dict) else {}
    classifies, is_own = "outputs" in settings, config["model_type"] == OWN
    is_causal = settings["size"].get("attention") == "causal"
    uses = {"text-classification": CLASSIFIER, "text-generation": CAUSAL, "fill-mask": LOAD}
    task = "text-classification" if classifies else "text-generation" if is_causal else "fill-mask"
    # A set of names in order: an exported network of ours has `model_type` relpos, too.
    tags = list(dict.fromkeys(["relpos", str(config["model_type"])]))
    front = {"library_name": "transformers", "pipeline_tag": task, "tags": tags, "license": "unknown", "language": "und"}
    # The text of a fine-tuning's configuration need not be what its network was trained on.
    datasets = _datasets(made_with.get("data")) if given.record.get("stage") == "pretrain" else []
    front |= {"datasets": datasets} if datasets else {}
    example = uses[task]
    elsewhere = example.replace('"FOLDER")', '"FOLDER", trust_remote_code=True)')
    opened = [f"import relpos  # lets transformers open it; no remote code\n{example}", elsewhere] if is_own else [example]
    question, made = _made(given, made_with)
    parts = [
        f"---\n{OmegaConf.to_yaml(OmegaConf.create(front))}---",
        f"# {_escaped((given.run or given.folder).resolve().name)}",
        *question,
        f"{'A decoder' if is_causal else 'An encoder'} with the position scheme {class_of(settings['position'])} and the "
        f"convolution {class_of(settings['conv'])}, "
        f"trained with relpos{f', after {given.share} % of its steps' if given.share < END else ''}. "
        + (OPENS_OWN if is_own else f"It opens as `{config['architectures'][0]}`."),
        *(_fenced("python", code) for code in opened),
        *made,
        *_tested(given),
        *_record(given),
        f"## Network\n\n{_fenced('yaml', OmegaConf.to_yaml(OmegaConf.create(dict(settings))))}",
        f"## Licence\n\n{LICENCE}",
    ]
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    r"""Text, which may be a stranger's, on one line of Markdown as it stands.

    >>> print(_escaped("a_b [x](y) | <b>"))
    a_b \[x\](y) \| \<b\>
    """
    return re.sub(r"[\\`*\[\]<>|#!~&]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(printable(text).split()))


def _fenced(language: str, text: str) -> str:
    """A block of code in Markdown, whose fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _made(given: Network, made_with: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The question of the table that it was trained for; of which row it is, and the command that makes it again."""
    told = [made_with.get(key) for key in ("table", "row")]
    table, row = (name if isinstance(name, str) and name.isprintable() and not {*"`$"} & {*name} else None for name in told)
    made, command = [], None
    if table and row:
        made = [f"Row `{row}` of the table `{table}`."]
        command = f"relpos reproduce table={table} 'rows=[{row}]'"
    elif (typed := str(given.record.get("command", ""))).startswith(("relpos pretrain", "relpos finetune")):
        command = _without_folders(typed)
    made += [_fenced("sh", command)] if command else []
    try:  # the experiment file may be gone
        question = [f"Trained for the question: {experiment.load(table).question}"] if table else []
    except RelposError:
        question = []
    return question, ["## Made by", *made] if made else []


def _datasets(data: Any) -> list[str]:
    """The ids of the hub's data sets in the `data` of a configuration, which may be a stranger's."""
    texts = data.get("texts") if isinstance(data, dict) else None
    named = [text.get("id") for text in texts if isinstance(text, dict)] if isinstance(texts, list) else []
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)))


def _without_folders(command: str) -> str | None:
    """The command with each path cut to its last part; None where it cannot be read."""
    try:
        return shlex.join(FOLDERS.sub("", word) for word in without_keys(shlex.split(command)))
    except ValueError:  # a quote is open, in a record of somebody else
        return None


def _tested(network: Network) -> list[str]:
    """What `relpos claims` found last, after this pre-training, about its row at its scale: a line for each claim."""
    run = network.run
    if run is None or network.is_snapshot:
        return []
    # A page that is older than this run cannot have counted it.
    since = (run / "record.json").stat().st_mtime
    times = {page: page.stat().st_mtime for page in (runs_root() / "claims").glob("*.json")}
    pages = [page for page in sorted(times, key=times.__getitem__) if times[page] >= since]
    # The scales with which claims are tested, and its row there.
    here = [
        (scale.label, row)
        for scale in (claim_files.scales() if pages else ())
        for row, folders in scale.folders.items()
        if run.resolve() in {folder.resolve() for folder in folders.values()}
    ]
    lines = {
        claim["id"]: f"- {claim['id']}, {finding['word']}: {claim['says']} ({claim['source']}; {finding['scale']})"
        for page in pages
        for claim in read_json(page)["claims"]
        for finding in claim["findings"]
        if any(finding["scale"] == label and row in claim["rows"] for label, row in here)
    }
    return ["## Claims\n\nTested with this network and others:\n\n" + "\n".join(lines.values())] if lines else []


def _record(given: Network) -> list[str]:
    """What the record says of the training, metrics, versions, hardware; and what was measured later."""
    record = given.record
    if not record:
        return ["No record of the training came with this network."]
    figures = final(record) if given.share == END else {}  # they are of the last step
    rows = {name: f"{value:,}" if isinstance(value, int) else f"{value:.6g}" for name, value in figures.items()} | _measured(given)
    # The network's own description follows in full, as `Network`.
    meaning = {name: value for name, value in record["meaning"].items() if name not in ("size", "position", "conv")}
    facts = {key: record.get(key) for key in ("stage", "identity", "commit", "versions", "hardware", "seconds")}
    facts |= {"commit": facts["commit"] or "not recorded", "meaning": _without_paths(meaning)}
    lines = [f"| {_escaped(name)} | {value} |" for name, value in rows.items()]
    return [
        *(["## Results\n\n| | |\n|---|---:|\n" + "\n".join(lines)] if lines else []),
        f"## Training\n\n{_fenced('yaml', OmegaConf.to_yaml(OmegaConf.create(facts)))}",
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
                    form = "plain" if entry.meaning.get("form") == "plain" else ""
                    title = ", ".join(filter(None, (column.title, NATS if column.metric == NATS else "", on, form)))
                    interval = f" ({figure.interval[0]:.3f} to {figure.interval[1]:.3f})" if figure.interval else ""
                    text = f"{figure.value:.3f}{interval}"
                    # Pairs of two files may be as many: neither value stands in place of the other.
                    found[title] = "; ".join(dict.fromkeys([*found.get(title, text).split("; "), text]))
    return found


def _without_paths(value: Any) -> Any:
    """The value with every path cut to its last part."""
    if isinstance(value, Mapping):
        return {str(key): _without_paths(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(part) for part in value]
    return FOLDERS.sub("", value) if isinstance(value, str) else value
