"""`relpos figures PAPER`: every figure of a paper, from the finished pre-trainings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from relpos.commands.analyze import subjects_of
from relpos.config.conf import conf_dir
from relpos.errors import RelposError
from relpos.files import read_yaml, write_text
from relpos.ranges import Names, Threads
from relpos.runs.run import runs_root
from relpos.runs.shelf import finished
from relpos.trust import instantiate


@dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    Args:
        number: as printed.
        kind: the kind of `relpos analyze` that draws it.
        architecture: position scheme and convolution of the networks that it shows, as in the names of their folders.
        overrides: of `relpos pretrain`, that make such a network.
    """

    number: str
    kind: str
    architecture: str
    overrides: str

    def is_about(self, run: Path) -> bool:
        """Whether it shows the network of this folder, which is called ARCHITECTURE-LAYERSxHIDDEN-….

        >>> FIGURES["chang2021"][1].is_about(Path("composite-2x64-toy-seed0-98e3504d68cb"))
        True
        >>> FIGURES["chang2021"][1].is_about(Path("composite-depthwise-2x64-toy-seed0-98e3504d68cb"))
        False
        """
        return re.match(rf"{re.escape(self.architecture)}-\d+x\d+-", run.name) is not None


FIGURES = {
    "chang2021": (
        Figure("1", "attention_by_offset", "absolute", "position=absolute"),
        Figure("2", "kernels", "composite", "position=composite"),
        Figure("3", "kernels", "none-depthwise", "position=none conv=depthwise"),
    ),
    "wennberg2021": (
        Figure("1, 4, 5", "position_similarity", "absolute", "position=absolute"),
        Figure("2", "toeplitz", "absolute", "position=absolute 'snapshots=[1,3,10,30,60]'"),
        Figure("3, 6", "responses", "absolute", "position=absolute"),
        Figure("7", "kernels", "tisa", "position=tisa"),
        Figure("8", "profiles", "absolute", "position=absolute"),
    ),
}


def figures(paper: Literal["chang2021", "wennberg2021"], network: Names | None, text: str | None, threads: Threads | None) -> str:
    """Draws what can be drawn into a folder below `$RELPOS_RUNS/figures`, which it returns; `README.md` in it shows the figures.

    Of a figure that is missing the page says which command would make a network for it.
    """
    from relpos.train.module import set_threads

    set_threads(threads)
    # Whatever table they were trained for: a figure is about an architecture.
    runs = [run for run, _ in finished("pretrain")]
    folder = runs_root() / "figures" / paper
    sections = [f"# Figures of {paper}"]
    for figure in FIGURES[paper]:
        folders = [str(run) for run in runs if figure.is_about(run)]
        # Published checkpoints stand in for the paper's own networks, which had tables of absolute positions.
        published = (network or []) if figure.architecture == "absolute" else []
        sections.append(f"## Figure {figure.number}: {figure.kind.replace('_', ' ')}")
        if not folders and not published:
            sections.append(f"Missing: `relpos pretrain {figure.overrides}` makes a network for it.")
            continue
        kind = instantiate(read_yaml(conf_dir() / "kind" / f"{figure.kind}.yaml"), "kind")
        try:
            for drawing in kind(subjects_of([*folders, *published], text)):
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
