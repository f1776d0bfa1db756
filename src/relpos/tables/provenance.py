"""What a table was made with: processors, versions and commits of its runs. Rows that mix them differ in their last digits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from relpos.tables.plan import PlannedRow

SHORT = 7
"""Digits of a commit that are shown."""


def made_with(plan: Iterable[PlannedRow]) -> str:
    """`Runs were made on AMD EPYC, avx512_bf16 (60) and AMD EPYC, avx2 (12); with torch 2.13.0; at commit 849145d.`, or empty."""
    runs = [run for row in plan for run in (*row.pretrainings, *(tuning.run for tuning in row.tunings))]
    # Rows may share a run, which was made once.
    return said([run.record for run in {run.path: run for run in runs}.values() if run.state == "finished"])


def said(records: Iterable[Mapping[str, Any]]) -> str:
    """The line of `made_with`.

    >>> first = {"hardware": {"processor": "a CPU", "instructions": "avx2"}, "commit": "01234567", "versions": {"torch": "2.13.0"}}
    >>> said([first, first, first | {"hardware": {"processor": "another"}}])
    'Runs were made on a CPU, avx2 (2) and another (1); with torch 2.13.0; at commit 0123456.'
    """
    records = list(records)
    if not records:
        return ""
    parts = {
        "on ": [_machine(record.get("hardware") or {}) for record in records],
        "with torch ": [str((record.get("versions") or {}).get("torch", "unknown")) for record in records],
        "at commit ": [str(record.get("commit") or "unknown")[:SHORT] for record in records],
    }
    return f"Runs were made {'; '.join(before + _counted(values) for before, values in parts.items())}."


def _machine(hardware: Mapping[str, Any]) -> str:
    named = [*hardware.get("gpus", []), hardware.get("processor", "an unknown processor"), hardware.get("instructions")]
    return ", ".join(str(name) for name in named if name)


def _counted(values: Iterable[str]) -> str:
    counts = Counter(values)
    return " and ".join(f"{value} ({count})" if len(counts) > 1 else value for value, count in counts.most_common())
