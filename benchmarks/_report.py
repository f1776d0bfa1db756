"""What every benchmark writes: a JSON file for programs and a Markdown table for people, with the
machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from relpos.runs.execute import hardware

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Processor, cores in use, and whether it has bfloat16 instructions."""
    flags = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    )
    return hardware() | {
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "bf16_instructions": "avx512_bf16" in flags or "amx_bf16" in flags,
    }


def write_results(name: str, content: dict[str, Any]) -> None:
    """`results/NAME.json` and `results/NAME.md`; `rows` becomes the table, the rest stands above
    it."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    rows = content["rows"]
    head = [f"{key}: {value}" for key, value in content.items() if key != "rows"]
    table = [
        list(rows[0]),
        ["---"] * len(rows[0]),
        *([str(value) for value in row.values()] for row in rows),
    ]
    lines = [f"# {name}", "", *head, "", *("| " + " | ".join(row) + " |" for row in table)]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
