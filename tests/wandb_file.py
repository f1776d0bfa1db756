"""Reads a `.wandb` file: records of protobuf in LevelDB's log format, as an offline run leaves
them."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32768, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def _payloads(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    assert content[:4] == b":W&B"
    place, parts = HEADER, b""
    while place + HEADER <= len(content):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def read(path: Path) -> dict[str, Any]:
    """`run`: id, group, type, tags, configuration; `history`: a dictionary a row; `summary`;
    `files`: what is uploaded; `artifacts`: how many; `finished`: whether it was closed."""
    from wandb.proto.wandb_internal_pb2 import Record

    log: dict[str, Any] = {
        "run": {},
        "history": [],
        "summary": {},
        "files": [],
        "artifacts": 0,
        "finished": False,
    }
    for payload in _payloads(path):
        record = Record()
        record.ParseFromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            fields = {
                "id": record.run.run_id,
                "name": record.run.display_name,
                "group": record.run.run_group,
            }
            log["run"] = fields | {
                "type": record.run.job_type,
                "tags": list(record.run.tags),
                "config": config,
            }
        elif kind == "history":
            log["history"].append(_items(record.history.item))
        elif kind == "summary":
            log["summary"] |= _items(record.summary.update)
        elif kind == "files":
            log["files"] += [file.path for file in record.files.files]
        elif kind == "artifact" or (kind == "request" and record.request.HasField("log_artifact")):
            log["artifacts"] += 1
        elif kind == "exit":
            log["finished"] = record.exit.exit_code == 0
    return log


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
