"""Writes a network as a model folder of Hugging Face: configuration, weights, code, tokenizer and model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from relpos.data.fast_tokenizer import write_fast_tokenizer
from relpos.data.published_tokenizer import PublishedTokenizer
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.files import replacing_folder, write_json, write_text
from relpos.model.heads import Classifier, MaskedLM
from relpos.pretrained.export import to_huggingface
from relpos.pretrained.files import OWN
from relpos.train import standalone
from relpos.train.weights import WEIGHTS, save_tensors

MASKED, CAUSAL, CLASSIFIER = "RelposForMaskedLM", "RelposForCausalLM", "RelposForSequenceClassification"
"""Classes of `relpos.train.huggingface`."""


def export(
    folder: Path,
    model: MaskedLM | Classifier,
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    card: Callable[[dict[str, Any]], str],
    labels: list[str] | None = None,
) -> dict[str, Any]:
    """Writes the folder, whole or not at all; returns the content of `config.json`.

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
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RelposError(f"to={folder} already exists and is not an empty folder: name another one, or delete it")
    classifies = isinstance(model, Classifier)
    ours = CLASSIFIER if classifies else CAUSAL if model.encoder.causal else MASKED
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
        tokenizer.save(temporary)
        if not isinstance(tokenizer, PublishedTokenizer):  # that of a published checkpoint is a fast one already
            # In our pre-training all tokens have type 0; a fine-tuning gives the second text type 1.
            write_fast_tokenizer(temporary, tokenizer, longest, second_type=int(classifies), open_end=ours == CAUSAL)
        write_text(temporary / "README.md", card(config))
        save_tensors(tensors, temporary / WEIGHTS, {"format": "pt"})
    return config
