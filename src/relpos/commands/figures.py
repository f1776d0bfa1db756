"""`relpos figures PAPER`: every figure of a paper, from the finished pre-trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from relpos.commands.analyze import drawn, samples_of
from relpos.config.conf import conf_dir
from relpos.errors import RelposError
from relpos.files import write_text
from relpos.process import set_threads
from relpos.ranges import Names, Threads
from relpos.readers import read_yaml
from relpos.results.plateau import NONE
from relpos.results.scale import made
from relpos.results.values import Value, read
from relpos.runs.run import runs_root
from relpos.train.network import class_of
from relpos.trust import instantiate

FIGURES = {
    "chang2021": {
        "1": ("attention_by_offset", ("absolute", NONE)),
        "2": ("kernels", ("composite", NONE)),
        "3": ("kernels", (NONE, "depthwise")),
    },
    "wennberg2021": {
        "1, 4, 5": ("position_similarity", ("absolute", NONE)),
        "2": ("toeplitz", ("absolute", NONE)),
        "3, 6": ("responses", ("absolute", NONE)),
        "7": ("kernels", ("tisa", NONE)),
        "8": ("profiles", ("absolute", NONE)),
    },
}
"""Paper → number of a figure as printed → the kind of `relpos analyze` that draws it; the classes of `position` and `conv` of the
networks that it shows, whatever their dials."""


def figures(paper: Literal["chang2021", "wennberg2021"], network: Names | None, text: str | None, threads: Threads | None) -> str:
    """Draws what can be drawn into a folder below `$RELPOS_RUNS/figures`, which it returns; `README.md` in it shows the figures.

    Of a figure that is missing the page says which command would make a network for it.
    """
    set_threads(threads)
    # Whatever table they were trained for: a figure is about a scheme, in the paper's layers and on text in its order.
    trained = {each.run: each for each in read(measured=()) if each.stage == "pretrain"}
    schemes = {run: scheme_of(each) for run, each in trained.items() if made(*json.loads(each.scale)).is_of_paper}
    folder = runs_root() / "figures" / paper
    sections = [f"# Figures of {paper}"]
    for number, (kind, scheme) in FIGURES[paper].items():
        folders = [str(run) for run, of_run in schemes.items() if of_run == scheme]
        # Published checkpoints stand in for the paper's own networks, which had tables of absolute positions.
        published = (network or []) if scheme == ("absolute", NONE) else []
        sections.append(f"## Figure {number}: {kind.replace('_', ' ')}")
        if not folders and not published:
            overrides = "position={} conv={}".format(*scheme) + " 'snapshots=[1,3,10,30,60]'" * (kind == "toeplitz")
            sections.append(f"Missing: `relpos pretrain {overrides}` makes a network for it.")
            continue
        measure = instantiate(read_yaml(conf_dir() / "kind" / f"{kind}.yaml"), "kind")
        try:
            for drawing in drawn(measure, samples_of([*folders, *published], text)):
                files = [path.name for path in drawing.save(folder)]
                # Quoted: the name of a snapshot has spaces and a per cent sign.
                sections += [f"![{name}]({quote(name)})" for name in files if name.endswith(".png")]
                links = ", ".join(f"[{Path(name).suffix[1:].upper()}]({quote(name)})" for name in files)
                sections.append(f"{drawing.name}: {links}")
        # A figure that cannot be drawn is no reason to go without the others.
        except RelposError as error:
            sections.append(f"Not drawn: {error}")
    write_text(folder / "README.md", "\n\n".join(sections) + "\n")
    return str(folder)


def scheme_of(run: Value) -> tuple[str, str]:
    """The classes of `position` and `conv` of a pre-training, of which this is any value."""
    nodes = json.loads(run.scheme)
    return class_of(nodes["position"]), class_of(nodes["conv"])
