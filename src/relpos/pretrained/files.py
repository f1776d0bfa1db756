"""The files of a checkpoint: where they lie, which ones exist, and its configuration.

The internet is used only for an id of the Hugging Face hub, and not with `HF_HUB_OFFLINE=1`;
checkpoints that were fetched before are found without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from relpos.errors import RelposError, from_library
from relpos.places import expanded
from relpos.readers import Plain, read_json

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Looked for in this order; each may be cut into shards with an index."""

TOKENIZER = (
    "tokenizer*",
    "special_tokens_map.json",
    "vocab.*",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece*.model",
)
"""Patterns of the files of a tokenizer."""

ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(@[\w.-]+)?")
"""An id of the hub: `name` or `owner/name`, and perhaps a revision after an @."""

OWN = "relpos"
"""`model_type` of an exported network that `transformers` has no class for: its `config.json` and
parameters are ours."""


def read_config(folder: Path) -> Plain:
    """The content of `config.json`.

    Raises:
        RelposError: there is none, or it is damaged.
    """
    path = folder / CONFIG
    if not path.exists():
        raise RelposError(f"no model in {folder}: {CONFIG} is missing")
    return dict(read_json(path, dict))


def form_of(folder: Path) -> Literal["published", "exported", ""]:
    """In which form a folder with a `config.json` holds a network.

    Returns:
        `published`: as `transformers` has written it for one of its own classes, or another library
        in the same form; `exported`: as `relpos export` has, for a network that `transformers` has
        no class for. Empty: there is no `config.json`, or the `config.yaml` of a run's model folder
        stands beside it.
    """
    if not (folder / CONFIG).is_file() or (folder / "config.yaml").is_file():
        return ""
    if read_config(folder).get("model_type") == OWN:
        return "exported"
    return "published"


def name_of(folder: Path) -> str:
    """The name of a checkpoint: of its folder, of the folder above one that is called `model`, or
    of the hub's repository.

    >>> name_of(Path("hub/models--google--electra-small/snapshots/5c6d"))
    'google/electra-small'
    """
    folder = folder.resolve()
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.removeprefix("models--").replace("--", "/")
    if folder.name == "model":
        folder = folder.parent
    return folder.name


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights: one, or the shards of an index.

    Raises:
        RelposError: there are none, or a shard is missing.
    """
    return list(names_by_file(folder))


def names_by_file(folder: Path) -> dict[Path, set[str]]:
    """The files that hold the weights → the names that the index gives for a shard; a file without
    an index has none.

    Raises:
        RelposError: as `weight_files`.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return {folder / name: set()}
        index = folder / f"{name}.index.json"
        if index.is_file():
            weight_map = read_json(index, ShardIndex).weight_map
            if not weight_map:
                raise RelposError(f"{index}: it names no weights")
            names = {folder / shard: set[str]() for shard in sorted({*weight_map.values()})}
            for file in names:
                # A name with a folder in it could point anywhere on this machine.
                if file.parent != folder or not file.is_file():
                    raise RelposError(f"{index}: shard {file.name} is missing")
            for weight, shard in weight_map.items():
                names[folder / shard].add(weight)
            return names
    raise RelposError(f"no weights in {folder}: {' or '.join(WEIGHTS)} is expected")


@dataclass(frozen=True)
class ShardIndex:
    """The index of shards: the name of a weight → the name of its file."""

    weight_map: dict[str, str]


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a tokenizer, of a published one or of ours."""
    paths = chain.from_iterable(map(folder.glob, TOKENIZER))
    return sorted({*filter(Path.is_file, paths)})


def located(name: str | Path) -> Path:
    """The folder itself, or the one in the hub's cache into which the checkpoint is fetched.

    The folder in the cache has the name of the commit, so that it says which revision it is.

    Raises:
        RelposError: there is no such folder, or the hub does not give such a checkpoint; one line.
    """
    folder = expanded(name)
    if not is_remote(str(name)):
        return folder
    from huggingface_hub import snapshot_download  # half a second

    repository, _, revision = str(name).partition("@")

    def fetched(*patterns: str) -> Path:
        # Without subfolders, which have other formats and training states.
        return Path(
            snapshot_download(
                repository,
                revision=revision or None,
                allow_patterns=[CONFIG, *TOKENIZER, *patterns],
                ignore_patterns="*/*",
            )
        )

    with from_library(f"{name}: no such folder, and the hub gives no such checkpoint"):
        # Many repositories have the weights twice; the pickled ones are fetched only where there
        # are no others.
        place = fetched("model*.safetensors*")
        if not list(place.glob("*.safetensors")):
            place = fetched("pytorch_model*.bin*")
        return place


def is_remote(name: str) -> bool:
    """Whether a name is no folder and may be an id of the hub: `name`, or `owner/name` where there
    is no folder `owner`."""
    is_id = ID.fullmatch(name) is not None and ("/" not in name or not Path(name).parent.is_dir())
    return is_id and not expanded(name).exists()
