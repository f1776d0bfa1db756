"""The folder of a published checkpoint that the user names by a folder or by an id of the Hugging Face hub.

The internet is used only for an id, and not with `HF_HUB_OFFLINE=1`; checkpoints that were fetched before are found without it.
"""

from __future__ import annotations

import re
from pathlib import Path

from relpos.errors import RelposError, one_line
from relpos.places import expanded
from relpos.pretrained.files import CONFIG, TOKENIZER

ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(@[\w.-]+)?")
"""`name` or `owner/name`, and perhaps a revision after an @."""

TEXTS = (CONFIG, *TOKENIZER)
SAFE, PICKLED = ("model*.safetensors*",), ("pytorch_model*.bin*",)


def located(name: str | Path) -> Path:
    """The folder itself, or the one in the hub's cache into which the checkpoint is fetched.

    The folder in the cache has the name of the commit, so that it says which revision it is.

    Raises:
        RelposError: there is no such folder, or the hub does not give such a checkpoint; one line.
    """
    folder = expanded(name)
    if not is_remote(str(name)):
        return folder
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise RelposError(f"{name}: fetching from the hub needs huggingface_hub: pip install huggingface-hub") from None
    repository, _, revision = str(name).partition("@")

    def fetched(*patterns: str) -> Path:
        # Nothing in subfolders: other formats and training states lie there.
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=[*patterns], ignore_patterns="*/*"))

    try:
        # Many repositories have the weights twice; the pickled ones are fetched only where there are no others.
        place = fetched(*TEXTS, *SAFE)
        return place if list(place.glob("*.safetensors")) else fetched(*TEXTS, *PICKLED)
    except Exception as error:  # offline, no such id, no permission: the library has a class for each
        raise RelposError(f"{name}: no such folder, and the hub gives no such checkpoint: {one_line(error)}") from None


def is_remote(name: str) -> bool:
    """Whether a name is no folder and may be an id of the hub."""
    return not expanded(name).exists() and is_id(name)


def is_id(name: str) -> bool:
    """Whether a name that is no folder may be an id of the hub: `name`, or `owner/name` where there is no folder `owner`."""
    return ID.fullmatch(name) is not None and ("/" not in name or not Path(name).parent.is_dir())
