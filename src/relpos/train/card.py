"""The model card of an exported run: `README.md`, as the Hugging Face hub reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import OmegaConf

from relpos.pretrained.files import OWN
from relpos.train.described import class_of

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


@dataclass(frozen=True)
class Origin:
    """Where a network comes from, beyond the record of its run.

    Args:
        table, row: what the run was made for.
        question: of that table.
        command: makes the run again.
        measured: what was measured of the network → its value.
        share: per cent of the training steps that the network has done.
        claims: the claims in whose tests the network took part, each with its verdict.
        datasets: of the hub, on which it was trained.
    """

    table: str | None = None
    row: str | None = None
    question: str | None = None
    command: str | None = None
    measured: Mapping[str, str] = field(default_factory=dict)
    share: int = 100
    claims: Sequence[str] = ()
    datasets: Sequence[str] = ()


def card(
    name: str, config: Mapping[str, Any], record: Mapping[str, Any], settings: Mapping[str, Any], origin: Origin | None = None
) -> str:
    """The text of the card.

    Args:
        name: of the run.
        config: content of the exported `config.json`.
        record: of the run; empty for a model folder that stands alone. Its paths and host names are left out.
        settings: the description of the network in a model folder: size, position, conv, …
        origin: where it comes from.
    """
    origin = origin or Origin()
    classifies, is_own = "outputs" in settings, config["model_type"] == OWN
    is_causal = settings["size"].get("attention") == "causal"
    uses = {"text-classification": CLASSIFIER, "text-generation": CAUSAL, "fill-mask": LOAD}
    task = "text-classification" if classifies else "text-generation" if is_causal else "fill-mask"
    # A set of names in order: an exported network of ours has `model_type` relpos, too.
    tags = list(dict.fromkeys(["relpos", str(config["model_type"])]))
    front = {"library_name": "transformers", "pipeline_tag": task, "tags": tags, "license": "unknown", "language": "und"}
    front |= {"datasets": list(origin.datasets)} if origin.datasets else {}
    example = uses[task]
    elsewhere = example.replace('"FOLDER")', '"FOLDER", trust_remote_code=True)')
    opened = [f"import relpos  # lets transformers open it; no remote code\n{example}", elsewhere] if is_own else [example]
    parts = [
        f"---\n{OmegaConf.to_yaml(OmegaConf.create(front))}---",
        f"# {name}",
        *([f"Trained for the question: {origin.question}"] if origin.question else []),
        f"{'A decoder' if is_causal else 'An encoder'} with the position scheme {class_of(settings['position'])} and the "
        f"convolution {class_of(settings['conv'])}, "
        f"trained with relpos{f', after {origin.share} % of its steps' if origin.share < 100 else ''}. "
        + (OPENS_OWN if is_own else f"It opens as `{config['architectures'][0]}`."),
        *(f"```python\n{code}\n```" for code in opened),
        *_made(origin),
        *_tested(origin),
        *_record(record, origin),
        f"## Network\n\n```yaml\n{OmegaConf.to_yaml(OmegaConf.create(dict(settings))).strip()}\n```",
        f"## Licence\n\n{LICENCE}",
    ]
    return "\n\n".join(parts) + "\n"


def _made(origin: Origin) -> list[str]:
    """Of which row it is, and the command that makes it again."""
    row = f"Row `{origin.row}` of the table `{origin.table}`." if origin.table and origin.row else None
    again = f"```sh\n{origin.command}\n```" if origin.command else None
    found = [part for part in (row, again) if part]
    return ["## Made by", *found] if found else []


def _tested(origin: Origin) -> list[str]:
    lines = "\n".join(f"- {claim}" for claim in origin.claims)
    return [f"## Claims\n\nTested with this network and others:\n\n{lines}"] if lines else []


def _record(record: Mapping[str, Any], origin: Origin) -> list[str]:
    """What the record says of the training, metrics, versions, hardware; and what was measured later."""
    if not record:
        return ["No record of the training came with this network."]
    metrics = (record.get("metrics") or {}) if origin.share == 100 else {}  # they are of the last step
    figures = {name: value for name, value in metrics.items() if isinstance(value, int | float)} | metrics.get("columns", {})
    rows = {name: f"{value:,}" if isinstance(value, int) else f"{value:.6g}" for name, value in figures.items()} | dict(
        origin.measured
    )
    # The network's own description follows in full, as `Network`.
    meaning = {name: value for name, value in record["meaning"].items() if name not in ("size", "position", "conv")}
    facts = {
        "stage": record.get("stage"),
        "identity": record.get("identity"),
        "commit": record.get("commit") or "not recorded",
        "versions": record.get("versions"),
        "hardware": record.get("hardware"),
        "seconds": record.get("seconds"),
        "meaning": _without_paths(meaning),
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return [
        *(["## Results\n\n| | |\n|---|---:|\n" + "\n".join(lines)] if lines else []),
        f"## Training\n\n```yaml\n{OmegaConf.to_yaml(OmegaConf.create(facts)).strip()}\n```",
    ]


def _without_paths(value: Any) -> Any:
    """The value with every absolute path cut to its last part: a card is published, and says nothing about a machine."""
    if isinstance(value, Mapping):
        return {str(key): _without_paths(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(part) for part in value]
    return value.rstrip("/").rsplit("/", 1)[-1] if isinstance(value, str) and value.startswith("/") else value
