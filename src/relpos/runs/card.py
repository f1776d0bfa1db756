"""The model card of an exported run: `README.md`, as the Hugging Face hub reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from relpos.pretrained.files import OWN

LOAD = """from transformers import pipeline

pipeline("fill-mask", model="FOLDER")("the cat [MASK] on the mat")"""
CLASSIFIER = """from transformers import pipeline

pipeline("text-classification", model="FOLDER")({"text": "first text", "text_pair": "second text"})"""
OPENS_OWN = "`transformers` has no such network: relpos registers a class of its own."
LICENCE = (
    "Whoever trained the weights says under which licence they are; it depends on the text that they were trained on. relpos "
    "itself is under the MIT licence."
)


def card(
    name: str, config: Mapping[str, Any], record: Mapping[str, Any], settings: Mapping[str, Any], question: str | None = None
) -> str:
    """The text of the card.

    Args:
        name: of the run.
        config: content of the exported `config.json`.
        record: of the run; empty for a model folder that stands alone. Its paths and host names are left out.
        settings: the description of the network in a model folder: size, position, conv, …
        question: of the table that the run was made for, if there is one.
    """
    classifies = "outputs" in settings
    task = "text-classification" if classifies else "fill-mask"
    tags = list(dict.fromkeys(["relpos", str(config["model_type"])]))
    front = {"library_name": "transformers", "pipeline_tag": task, "tags": tags}
    example = CLASSIFIER if classifies else LOAD
    if config["model_type"] == OWN:
        example = f"import relpos  # lets transformers open it; no remote code\n{example}"
    parts = [
        f"---\n{OmegaConf.to_yaml(OmegaConf.create(front))}---",
        f"# {name}",
        *([f"Trained for the question: {question}"] if question else []),
        f"An encoder with the position scheme {_class(settings['position'])} and the convolution {_class(settings['conv'])}, "
        "trained with relpos. " + (OPENS_OWN if config["model_type"] == OWN else f"It opens as `{config['architectures'][0]}`."),
        f"```python\n{example}\n```",
        *_record(record),
        f"## Network\n\n```yaml\n{OmegaConf.to_yaml(OmegaConf.create(dict(settings))).strip()}\n```",
        f"## Licence\n\n{LICENCE}",
    ]
    return "\n\n".join(parts) + "\n"


def _class(node: Mapping[str, Any]) -> str:
    return str(node["_target_"]).rpartition(".")[2]


def _record(record: Mapping[str, Any]) -> list[str]:
    """What the record says of the training: metrics, command, versions, hardware."""
    if not record:
        return ["No record of the training came with this network."]
    metrics = record.get("metrics") or {}
    figures = {name: value for name, value in metrics.items() if isinstance(value, int | float)} | metrics.get("columns", {})
    lines = [f"| {name} | {value:.6g} |" for name, value in figures.items()]
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
    return [
        "## Results\n\n| | |\n|---|---:|\n" + "\n".join(lines),
        f"## Training\n\n```yaml\n{OmegaConf.to_yaml(OmegaConf.create(facts)).strip()}\n```",
    ]


def _without_paths(value: Any) -> Any:
    """The value with every absolute path cut to its last part: a card is published, and says nothing about a machine."""
    if isinstance(value, Mapping):
        return {str(key): _without_paths(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(part) for part in value]
    return value.rsplit("/", 1)[1] if isinstance(value, str) and value.startswith("/") else value
