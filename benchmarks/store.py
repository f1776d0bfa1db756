"""Text to store: speed beside sentencepiece alone on the same sentences and cores; memory on 1x and
10x the text.

    python benchmarks/store.py [CORPUS] [--tokenizer FOLDER] [--rounds 3] [--times 10]

`sentencepiece alone` encodes the sentences of CORPUS, split beforehand and in memory; once by one
call on lists, with as many threads as there are cores, and once with a process a core. Ours reads
the files, splits, encodes and writes. Rounds are interleaved. CORPUS, where not given, is
$RELPOS_DATA/corpus, else the generated language. Writes benchmarks/results/store.json and store.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relpos.data.documents import portions, split
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.source import Files
from relpos.data.store import write_store
from relpos.data.tokenizer import Tokenizer, train_tokenizer
from relpos.data.toy.write import write_corpus
from relpos.process import cores as available

RESULTS = Path(__file__).parent / "results"
_worker: Tokenizer  # of a baseline's process


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", nargs="?")
    parser.add_argument(
        "--tokenizer", help="a folder with tokenizer.model; trained on CORPUS where not given"
    )
    parser.add_argument("--sample", type=int, default=500_000, help="sentences it is trained on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--times", type=int, default=10, help="how often the text is repeated to measure memory"
    )
    parser.add_argument("--memory", metavar="FOLDER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        return _write_once(Files(corpus=asked.corpus), Path(asked.tokenizer), Path(asked.memory))
    with tempfile.TemporaryDirectory() as place:
        corpus = _corpus(asked.corpus, Path(place))
        source = Files(corpus=str(corpus))
        folder = Path(asked.tokenizer or place)
        if not asked.tokenizer:
            train_tokenizer(source.documents(), folder, 30_004, asked.sample, 2)
        result = speed(source, folder, asked.rounds) | {
            "peak_memory_mb": memory(corpus, folder, asked.times)
        }
    report(result)


def speed(source: Files, folder: Path, rounds: int) -> dict[str, Any]:
    """Megabytes of sentences a second, and ratios within a round."""
    tokenizer = load_tokenizer(folder)
    texts = [
        split(portion) for document in source.documents() for portion in portions(document.lines)
    ]
    megabytes = sum(len(sentence.encode()) for text in texts for sentence in text) / 1e6
    cores = available()
    times: dict[str, list[float]] = {"one call": [], "a process a core": [], "store": []}
    for _ in range(rounds):
        times["one call"].append(
            _timed(lambda: [tokenizer.processor.encode(text, num_threads=cores) for text in texts])
        )
        with multiprocessing.get_context("fork").Pool(cores, _load, (folder,)) as pool:
            pool.map(_encode, texts[:cores])  # started
            times["a process a core"].append(
                _timed(lambda pool=pool: sum(pool.imap(_encode, texts, chunksize=2)))  # type: ignore[misc]
            )
        with tempfile.TemporaryDirectory() as out:
            times["store"].append(
                _timed(lambda out=out: write_store(source.documents(), tokenizer, Path(out), 0.01))  # type: ignore[misc]
            )
    ratios = {
        name: [base / ours for base, ours in zip(times[name], times["store"], strict=True)]
        for name in ("one call", "a process a core")
    }
    return {
        "megabytes": megabytes,
        "sentences": sum(map(len, texts)),
        "cores": cores,
        "processor": _processor(),
        "megabytes_per_second": {
            name: [megabytes / t for t in taken] for name, taken in times.items()
        },
        "store_over_sentencepiece": ratios,
    }


def memory(corpus: Path, tokenizer: Path, times: int) -> dict[str, dict[str, float]]:
    """Peak resident memory of a process that writes the store of the text, and of the text
    repeated."""
    peaks = {}
    for repeats in (1, times):
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "text").mkdir()
            for copy in range(repeats):
                _link(corpus, Path(place) / "text" / f"copy{copy:03}")
            arguments = [
                str(Path(place) / "text"),
                "--tokenizer",
                str(tokenizer),
                "--memory",
                str(Path(place) / "store"),
            ]
            done = subprocess.run(
                [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
            )
            peaks[f"{repeats}x"] = json.loads(done.stdout)
    return peaks


def report(result: dict[str, Any]) -> None:
    """Writes JSON and Markdown, and prints the latter."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "store.json").write_text(json.dumps(result, indent=1) + "\n")
    shares = result["store_over_sentencepiece"]
    lines = ["# Text to store", ""]
    lines += [
        f"{result['megabytes']:.1f} MB, {result['sentences']:,} sentences; {result['cores']} "
        f"x {result['processor']}."
    ]
    lines += ["Median (lowest to highest) of interleaved rounds.", ""]
    lines += ["| | MB/s | store's speed over it |", "|---|---|---|"]
    for name, values in result["megabytes_per_second"].items():
        label = "store" if name == "store" else f"sentencepiece alone, {name}"
        lines += [
            f"| {label} | {_spread(values)} | {_spread(shares[name]) if name in shares else ''} |"
        ]
    lines += [
        "",
        "| text | MB | peak memory, MB | of its largest helper process, MB |",
        "|---|---|---|---|",
    ]
    for name, peak in result["peak_memory_mb"].items():
        lines += [f"| {name} | {peak['text']:.0f} | {peak['self']:.0f} | {peak['children']:.0f} |"]
    text = "\n".join([*lines, ""])
    (RESULTS / "store.md").write_text(text)
    print(text)


def _write_once(source: Files, tokenizer: Path, folder: Path) -> None:
    write_store(source.documents(), load_tokenizer(tokenizer), folder, 0.01)
    peak = {
        "self": _high_water(),
        "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "text": (source.characters() or 0) / 1e6,
    }
    print(json.dumps(peak))


def _high_water() -> float:
    """Of this program. getrusage would count what the parent held when it started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _corpus(given: str | None, place: Path) -> Path:
    if given:
        return Path(given).absolute()
    if os.environ.get("RELPOS_DATA"):
        return Files().corpus_location().absolute()
    write_corpus(place / "toy", 0, 200_000)
    return place / "toy"


def _link(source: Path, place: Path) -> None:
    """A folder of links to the files (a search for files does not follow links to folders)."""
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_file():
            target = place / (path.relative_to(source) if source.is_dir() else path.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)


def _load(folder: Path) -> None:
    global _worker
    _worker = load_tokenizer(folder)


def _encode(text: list[str]) -> int:
    return len(_worker.processor.encode(text, num_threads=1))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


if __name__ == "__main__":
    main()
