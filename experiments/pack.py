"""Packs the records of all finished runs, to be committed beside a table: python
experiments/pack.py FOLDER records.tar.xz

Configuration, log, results of measures and answers on dev sets; no weights, and nothing that names
a machine or one of its folders.
FOLDER is `$RELPOS_RUNS`, or where an archive was unpacked. The same runs give the same bytes.
"""

import io
import json
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relpos.readers import sealed, unsealed

STAGES = ("pretrain", "finetune", "order")
KEPT = ("config.yaml", "metrics.jsonl", "results.json", "dev/*.tsv")
OF_A_MACHINE = ("pid", "host")


def records(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name in the archive and content of each file."""
    for path in sorted(path for stage in STAGES for path in folder.glob(f"{stage}/*/record.json")):
        record = unsealed(json.loads(path.read_text(encoding="utf-8")), str(path))
        if record["state"] == "finished":
            yield (
                str(path.relative_to(folder)),
                (json.dumps(sealed(cleaned(record)), indent=1) + "\n").encode(),
            )
            for kept in sorted(file for pattern in KEPT for file in path.parent.glob(pattern)):
                yield str(kept.relative_to(folder)), kept.read_bytes()


def cleaned(record: dict[str, Any]) -> dict[str, Any]:
    """The record without process numbers, host names and folders of the machine."""
    starts = [
        {key: value for key, value in start.items() if key not in OF_A_MACHINE}
        for start in record.get("starts", [])
    ]
    # What is named relative to the runs folder stays so.
    inputs = {
        name: Path(path).name if Path(path).is_absolute() else path
        for name, path in record.get("inputs", {}).items()
    }
    # Split as a shell does, because a folder's name may hold spaces.
    arguments = [
        word for word in shlex.split(record.get("command", "")) if not word.startswith("workers=")
    ]
    command = shlex.join(
        word for word in arguments if not word.partition("=")[2].startswith(("/", "~"))
    )
    return record | {"starts": starts, "inputs": inputs, "command": command}


def pack(folder: Path, archive: Path) -> None:
    """Writes the archive."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name, content in records(folder):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
