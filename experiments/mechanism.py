"""What happens in a network when it finds order: python experiments/mechanism.py [FOLDER]

FOLDER is `$RELPOS_RUNS` with the snapshots of table=plateau_mechanism; without one the committed
mechanism.csv is read. experiments/plateau_mechanism.yaml defines all quantities and asks what is
answered here. Prints the answers, and writes beside the committed table

    mechanism.csv   a line for each training and evaluation; at the end heads that attend to fixed
                    distances, to a neighbour, or to all words alike
    mechanism.png   the course of each training, a point where it leaves the plateau
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from plateau import exit_of

from relpos import load, style
from relpos.analysis.profiles import profiles
from relpos.analysis.toeplitz import toeplitz_r2
from relpos.data.store import Store
from relpos.data.toy.lexicon import word_classes

RESULTS = Path(__file__).parent / "results" / "plateau_mechanism"
ROWS = ("none", "absolute", "fixed", "rope", "composite")
COLOURS = dict(zip(ROWS, ("0.25", *style.COLOURS), strict=False))
PANELS = {
    "loss": "held-out loss, nats",
    "norm": "length of rows, spread of biases",
    "toeplitz": "R² of the nearest Toeplitz matrix",
    "attachment": "words attached by the best heads",
    "neighbour": "attention to a neighbour",
    "same_word": "attention to the same word",
}
LENGTH, TABLES, REACH = 64, 20, 8
"""Tokens of a document; random tables beside a learned one; the farthest of the fixed distances."""
CONTENT = "nNVvpIijq"  # classes of nouns, verbs and adjectives
PHRASE = "(?:[DAS]?[jq]?[nN])"
CLAUSE = f"(?:t(?:[Vv]{PHRASE}|{PHRASE}[Vv]))?"
RELATIONS = {
    "determiner": "(?P<word>[DAS])[jq]?(?P<to>[nN])",
    "adjective": "(?P<word>[jq])(?P<to>[nN])",
    "subject": f"(?P<word>[nNeE]){CLAUSE}r?(?:[doHR]x?r?)?(?P<to>[VvIipjq])",
    "subject of a clause on its object": "t[DAS]?j?(?P<word>[nN])(?P<to>[Vv])",
    "object": "(?P<to>[Vv])[DAS]?j?(?P<word>[nN])",
    "agent": "(?P<to>p)b[DAS]?j?(?P<word>[nN])",
    "auxiliary": f"(?P<word>[doHR])x?r?{PHRASE}?r?(?P<to>[Vpjq])",
}
"""Which words of a sentence belong together, over the letters of `word_classes`."""


class Text:
    """The held-out documents of a token store of the language, those that fill the length."""

    def __init__(self, store: Path, tokenizer: Any) -> None:
        examples = Store(store).examples("heldout", "document", LENGTH)
        numbers = torch.arange(len(examples))
        self.ids = examples.batch(numbers[examples.lengths(numbers) == LENGTH])[0]
        words, classes = self.ids[:, 1:-1], word_classes()
        pieces = map(tokenizer.word_piece, range(tokenizer.size))
        letters = np.array([classes.get(piece.strip("▁"), "-") for piece in pieces])
        lines = list(enumerate(map("".join, letters[words.numpy()])))
        self.relations = []
        for rule in RELATIONS.values():
            places = [(i, *pair) for i, line in lines for pair in pairs(line, rule)]
            self.relations.append(torch.tensor(places).T)
        content = torch.from_numpy(np.isin(letters, list(CONTENT)))[words]
        self.same = (words[:, :, None] == words[:, None]) & content[:, :, None]
        self.same.diagonal(dim1=1, dim2=2).fill_(False)


def pairs(line: str, rule: str) -> Iterator[tuple[int, int]]:
    """Places of words and of those to which they belong, in sentences that are there as a whole.

    >>> list(pairs(".DnVDjN.D", RELATIONS["object"]))
    [(6, 3)]
    """
    for sentence in re.finditer(r"(?<=[.?])[^.?]+[.?]", line):
        for match in re.finditer(rule, sentence[0]):
            yield sentence.start() + match.start("word"), sentence.start() + match.start("to")


def attention(p: torch.Tensor, text: Text) -> dict[str, float]:
    """What heads attend to that have the attention p (documents, heads, 62, 62) on a text."""
    neighbours = [p.diagonal(offset, 2, 3).mean((0, 2)) for offset in (-1, 1)]
    same = (p * text.same[:, None]).sum(3).transpose(0, 1)[:, text.same.any(2)].mean(1)
    others = p.masked_fill(torch.eye(p.shape[-1], dtype=torch.bool), -1.0)
    largest = torch.cat([others.argmax(3), others.argmax(2)], 1)  # (documents, 2 * heads, 62)
    hits = [(largest[i, :, word] == to[:, None]).sum(0).max() for i, word, to in text.relations]
    return {
        "attachment": float(sum(hits)) / sum(places.shape[1] for places in text.relations),
        "neighbour": float(torch.stack(neighbours).max()),
        "same_word": float(same.max()),
    }


@torch.no_grad()
def positions(model: Any) -> dict[str, float]:
    """Size of what the network has learned of positions, and how Toeplitz the scores of its table
    are, beside those of random tables."""
    scheme = model.encoder.position
    if hasattr(scheme, "beta"):
        return {"norm": float(scheme.beta.std(-1, unbiased=False).mean())}
    if not hasattr(scheme, "table"):
        return {}
    norm = scheme.table[1 : LENGTH - 1].norm(dim=1).mean()
    encoder = copy.deepcopy(model.encoder)
    random = []
    for seed in range(TABLES):
        drawn = torch.randn(scheme.table.shape, generator=torch.Generator().manual_seed(seed))
        encoder.position.table.copy_(drawn * norm / drawn[1 : LENGTH - 1].norm(dim=1).mean())
        random.append(toeplitz(encoder))
    own = {"norm": float(norm), "toeplitz": toeplitz(model.encoder)}
    return own | {"random": float(np.mean(random)), "random_highest": max(random)}


def toeplitz(encoder: Any) -> float:
    """R² without the main diagonal of F̂_P of the first layer, of the head that has most."""
    heads = profiles(encoder, 0, LENGTH)[:, 1:-1, 1:-1]
    return max(toeplitz_r2(head, main=False) for head in heads)


@torch.no_grad()
def measured(snapshot: Path, text: Text) -> dict[str, float]:
    """All quantities of a snapshot but its loss."""
    model, _ = load(snapshot)
    model.float().eval()
    maps: list[torch.Tensor] = []
    model.encoder(text.ids, maps=maps)
    return positions(model) | attention(torch.cat(maps, 1)[:, :, 1:-1, 1:-1], text)


def courses(folder: Path) -> pd.DataFrame:
    """A line for each training and evaluation, and those of heads that learn nothing."""
    runs = [path.parent for path in sorted(folder.glob("pretrain/*/snapshots"))]
    records = {run: json.loads((run / "record.json").read_text(encoding="utf-8")) for run in runs}
    finished = [run for run in runs if records[run]["state"] == "finished"]
    store = folder / records[finished[0]]["inputs"]["store"]
    text = Text(store, load(finished[0])[1])
    lines: list[dict[str, Any]] = []
    for run in finished:
        row = run.name.partition("-")[0]
        seed, steps = (records[run]["meaning"][key] for key in ("seed", "steps"))
        log = pd.read_json(run / "metrics.jsonl", lines=True).dropna(subset="heldout_loss")
        for step, loss in zip(log["step"], log["heldout_loss"], strict=True):
            lines.append({"row": row, "seed": seed, "step": step, "loss": loss})
            snapshot = run / "snapshots" / f"{100 * step / steps:g}.safetensors"
            if snapshot.is_file():
                lines[-1] |= measured(snapshot, text)
    place = torch.eye(LENGTH - 2)
    far = [place.roll(offset, 1) for offset in range(-REACH, REACH + 1) if offset]
    near, alike = far[REACH - 1 : REACH + 1], [torch.full_like(place, 1 / LENGTH)]
    for row, heads in (("distances", far), ("neighbours", near), ("alike", alike)):
        p = torch.stack(heads).expand(len(text.ids), -1, -1, -1)
        lines.append({"row": row} | attention(p, text))
    return pd.DataFrame(lines).astype({"seed": "Int64", "step": "Int64"})


def with_exits(runs: pd.DataFrame) -> pd.DataFrame:
    """The trainings with their lead over the mean loss of `none` at that update, and T."""
    control = runs[runs["row"] == "none"].groupby("step")["loss"].mean()
    of_run = runs.set_index("step").groupby(["row", "seed"])["loss"]
    left = of_run.apply(lambda losses: exit_of(losses, control)[0]).rename("T")
    left["none"] = np.nan
    return runs.assign(lead=runs["step"].map(control) - runs["loss"]).join(left, ["row", "seed"])


def halfway(course: pd.Series) -> float:
    """The first update at which a course has come half of its way.

    >>> halfway(pd.Series([0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [10, 20, 30, 40, 50, 60, 70]))
    25.0
    """
    share = (course - course.iloc[0]) / (course.iloc[-5:].mean() - course.iloc[0])
    there = max(1, int(np.argmax(share >= 0.5)))
    around = share.iloc[there - 1 : there + 1]
    return float(np.interp(0.5, around, around.index))


def sharpest(loss: pd.Series) -> float:
    """By how much a loss falls more in some 50 updates than in the 50 before, from update 50 on."""
    at = loss[loss.index >= 50].to_numpy()  # evaluated every 10 updates
    return float((2 * at[5:-5] - at[:-10] - at[10:]).max())


def answers(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each training T, where each quantity is halfway, and its values at some updates."""
    columns = {}
    for (row, seed), group in runs.groupby(["row", "seed"]):
        moments = {"10": 10, "200": 200, "300": 300, "T": group["T"].iloc[0], "1000": 1000}
        column = {"T": moments["T"]}
        for name in ("lead", *list(PANELS)[1:], "random_highest"):
            course = group.set_index("step")[name].dropna()
            if not course.empty:
                values = np.interp(list(moments.values()), course.index, course)
                column[f"{name} halfway"] = halfway(course)
                column |= dict(zip((f"{name} at {at}" for at in moments), values, strict=True))
        columns[row, int(seed)] = column
    return pd.DataFrame(columns).dropna(how="all")


def draw(lines: pd.DataFrame, runs: pd.DataFrame, to: Path) -> None:
    """A panel for each quantity, a line for each training, a point where it leaves the plateau."""
    random = runs.groupby("step")["random"].mean().dropna()
    best = pd.Series(lines.set_index("row").at["distances", "attachment"], random.index)
    grey = {"toeplitz": ("random tables", random), "attachment": ("best distances", best)}
    figure, axes = style.canvas(9.6, 7.2, 2, 3)
    for panel, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
        ends = []
        for row, of_row in runs.dropna(subset=name).groupby("row"):
            for _, group in of_row.groupby("seed"):
                steps, left = group["step"], group["T"].iloc[0]
                panel.plot(steps, group[name], color=COLOURS[row], linewidth=1)
                panel.plot(left, np.interp(left, steps, group[name]), "o", color=COLOURS[row], ms=4)
            ends.append((row, 1000, of_row.groupby("step")[name].max().iloc[-1], COLOURS[row]))
        if name in grey:
            label, course = grey[name]
            panel.plot(course, color="0.6", linewidth=2, zorder=0)
            ends.append((label, 1000, course.iloc[-1], "0.4"))
        style.logarithmic(panel, (10, 30, 100, 300, 1000))
        panel.set_title(title, fontsize=11, loc="left")
        style.name_ends(panel, ends)
    figure.supxlabel("updates; a point is where a training leaves the plateau", fontsize=11)
    style.save(figure, to, dpi=150)


def main() -> None:
    table = RESULTS / "mechanism.csv"
    if sys.argv[1:]:
        courses(Path(sys.argv[1])).to_csv(table, index=False, float_format="%.4f")
    lines = pd.read_csv(table)
    runs = with_exits(lines[lines["row"].isin(COLOURS)])
    print(answers(runs).round(3).to_string())
    for row, group in runs.groupby("row"):
        print(f"{row}: drop {sharpest(group.groupby('step')['loss'].mean()):.3f}")
    print(lines[~lines["row"].isin(COLOURS)].dropna(axis=1).to_string(index=False))
    draw(lines, runs, RESULTS / "mechanism.png")


if __name__ == "__main__":
    main()
