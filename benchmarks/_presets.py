"""Every option of `position` and `conv`, raced against `none` in one run, and the peak memory of
each."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from relpos.config.conf import conf_dir

RESULTS = Path(__file__).parent / "results"
NONE = "position=none"
Work = Callable[[], Any]
Race = Callable[[dict[str, Work], int], dict[str, list[float]]]


def presets() -> list[str]:
    """`position=…` and `conv=…`, all that are complete in themselves, `none` left out.

    A scheme that solves anew in one update of `refresh` only is there a second time, solving in
    every one.
    """
    names = []
    for group in ("position", "conv"):
        for file in sorted((conf_dir() / group).glob("*.yaml")):
            text = file.read_text(encoding="utf-8")
            if file.stem == "none" or "???" in text:
                continue
            names.append(f"{group}={file.stem}")
            if refresh(names[-1]) > 1:
                names.append(f"{names[-1]} {group}.refresh=1")
    return names


def refresh(name: str) -> int:
    """Updates from one that solves to the next."""
    group, _, option = name.partition("=")
    path = conf_dir() / group / f"{option}.yaml"
    node = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return int(node.get("refresh", 1))


def race_presets(
    make: Callable[[str], Work], race: Race, names: list[str], repeats: int, together: int
) -> dict[str, Any]:
    """{name: {time over none: median, lowest, highest; seconds}}; `together` of them take turns
    with `none` at a time."""
    rows: dict[str, Any] = {}
    for at in range(0, len(names), together):
        group = [NONE, *names[at : at + together]]
        times = race({name: make(name) for name in group}, repeats)
        rows |= {name: _row(times[name], times[NONE]) for name in group[1:]}
        gc.collect()
    for name, row in rows.items():
        solving = next((other for key, other in rows.items() if key.startswith(f"{name} ")), None)
        if solving is not None:  # the rounds that count do not solve; one update of `refresh` does
            row["ordinary"] = row["time"]
            row["time"] += (solving["time"] - row["time"]) / refresh(name)
    return rows


def peaks(script: list[str], names: list[str], threads: int) -> dict[str, float]:
    """Peak memory of each in MB, above what a process with everything imported has."""
    command = [sys.executable, *script, "--memory", *names, "--threads", str(threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def report_peaks(names: list[str], make: Callable[[str], Work], threads: int) -> None:
    """A line a name, each measured in a copy of this process, which has itself computed nothing
    yet."""
    import torch

    for name in names:
        sys.stdout.flush()
        child = os.fork()
        if child:
            if os.waitpid(child, 0)[1]:
                raise SystemExit(f"{name} failed")
            continue
        torch.set_num_threads(threads)
        before = _status("VmRSS")
        work = make(name)
        for _ in range(2):
            work()
        print(json.dumps([name, _status("VmHWM") - before]), flush=True)
        os._exit(0)


def with_memory(rows: dict[str, Any], megabytes: dict[str, float]) -> dict[str, Any]:
    """Adds `megabytes`, and `memory`: over that of `none`."""
    for name, row in rows.items():
        row |= {"memory": megabytes[name] / megabytes[NONE], "megabytes": megabytes[name]}
    return rows


def write(name: str, title: str, result: dict[str, Any], keep: bool) -> None:
    """`results/NAME.json` and `.md`; prints the latter. With `keep` the presets that were not
    measured keep their rows, with ratios to `none` as it was beside them; settings must be those of
    before, or nothing is written."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if keep and path.is_file() else {}
    is_alike = all(
        before.get(key) == value
        for key, value in result.items()
        if key not in ("machine", "presets")
    )
    added = (
        f" Measured in this run, the others before: "
        f"{', '.join(f'`{preset}`' for preset in result['presets'])}."
        if keep
        else ""
    )
    if before and is_alike:
        result = result | {"presets": before["presets"] | result["presets"]}
    about = ", ".join(f"{key}: {value}" for key, value in result["machine"].items())
    text = "\n".join(
        [
            f"# {title}",
            "",
            f"{about}; {result['repeats']} repeats.{added}",
            "",
            *lines(result["presets"]),
            "",
        ]
    )
    if not keep or (before and is_alike):
        RESULTS.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def lines(rows: dict[str, Any]) -> Iterator[str]:
    """A Markdown table."""
    yield "| preset | time over none | lowest – highest | seconds | peak memory over none | MB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, row in rows.items():
        cells = [
            f"`{name}`",
            f"{row['time']:.3f}",
            f"{row['min']:.2f} – {row['max']:.2f}",
            f"{row['seconds']:.4f}",
        ]
        cells += (
            [f"{row['memory']:.2f}", f"{row['megabytes']:.0f}"] if "memory" in row else ["", ""]
        )
        yield "| " + " | ".join(cells) + " |"


def _row(times: list[float], none: list[float]) -> dict[str, float]:
    ratios = [a / b for a, b in zip(times, none, strict=True)]
    seconds = statistics.median(times)
    return {
        "time": statistics.median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "seconds": seconds,
    }


def _status(key: str) -> float:
    """Of this process, in MB (Linux)."""
    text = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in text if line.startswith(f"{key}:")) / 1024
