"""How the auto classes of transformers find ours. In a program that imports relpos they are
registered (`relpos/__init__.py`); elsewhere a file of the folder does so, by
`trust_remote_code=True`. relpos writes that file and never runs one: it reads `config.json`."""

from __future__ import annotations

from pathlib import Path

from relpos.files import write_text

CLASSES = {
    "AutoConfig": "RelposConfig",
    "AutoModel": "RelposModel",
    "AutoModelForMaskedLM": "RelposForMaskedLM",
    "AutoModelForCausalLM": "RelposForCausalLM",
    "AutoModelForSequenceClassification": "RelposForSequenceClassification",
}
"""Class of transformers → ours."""
MODULE = "modeling_relpos"
AUTO_MAP = {theirs: f"{MODULE}.{ours}" for theirs, ours in CLASSES.items()}
"""The entry of `config.json` that makes transformers look into the file."""
# In `try`: of a plain import that fails transformers says to install what the package index has
# under this name.
CODE = '''\
"""Opens this folder in a program that does not import relpos, which must be installed."""

try:
    from relpos.train.huggingface import *
except ImportError as error:
    raise ImportError("this network is one of relpos: install relpos from its repository") from error
'''


def write(folder: Path) -> dict[str, str]:
    """Writes the file into a folder; returns the entry of `config.json`."""
    write_text(folder / f"{MODULE}.py", CODE)
    return AUTO_MAP
