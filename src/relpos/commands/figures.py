"""`relpos figures PAPER`: every figure of a paper, from whatever finished pre-trainings there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from relpos.commands.analyze import subjects_of
from relpos.errors import RelposError
from relpos.files import write_text
from relpos.runs.config import conf_dir, instantiate, names
from relpos.runs.run import read_record, runs_root


@dataclass(frozen=True)
class Figure:
    """One of a paper.

    Args:
        number: as printed.
        kind: of `relpos analyze`.
        begins: how the folders of the pre-trainings begin that it is about.
        words: of the `relpos pretrain` that makes one.
    """

    number: str
    kind: str
    begins: str
    words: str


FIGURES = {
    "chang2021": (
        Figure("1", "attention_by_offset", "absolute-", "position=absolute"),
        Figure("2", "kernels", "composite-", "position=composite"),
        Figure("3", "kernels", "none-depthwise-", "position=none conv=depthwise"),
    ),
    "wennberg2021": (
        Figure("1, 4, 5", "position_similarity", "absolute-", "position=absolute"),
        Figure("2", "toeplitz", "absolute-", "position=absolute 'snapshots=[1,3,10,30,60]'"),
        Figure("3, 6", "responses", "absolute-", "position=absolute"),
        Figure("7", "kernels", "tisa-", "position=tisa"),
        Figure("8", "profiles", "absolute-", "position=absolute"),
    ),
}


def figures(cfg: DictConfig) -> str:
    """Draws what can be drawn into a folder below `$RELPOS_RUNS/figures`, which it returns; `README.md` in it says what is missing
    and which command would make it.

    """
    from relpos.train.module import set_threads

    set_threads(cfg.threads)
    runs = _pretrainings()
    folder = runs_root() / "figures" / cfg.paper
    lines = [f"# Figures of {cfg.paper}", ""]
    for figure in FIGURES[cfg.paper]:
        found = [str(run) for run in runs if run.name.startswith(figure.begins)]
        published = list(names(cfg.pretrained) or ()) if figure.begins == "absolute-" else []
        heading = f"- Figure {figure.number} (`{figure.kind}`): "
        if not found and not published:
            lines.append(f"{heading}missing; `relpos pretrain {figure.words}` makes a network for it")
            continue
        more = OmegaConf.create({"run": found or None, "pretrained": published or None, "text": cfg.text})
        kind = instantiate(OmegaConf.to_container(OmegaConf.load(conf_dir() / "kind" / f"{figure.kind}.yaml")))  # type: ignore[arg-type]
        try:
            drawn = [path.name for drawing in kind(subjects_of(more)) for path in drawing.save(folder)]
        except RelposError as error:
            lines.append(f"{heading}not drawn: {error}")
            continue
        lines.append(heading + ", ".join(f"[{name}]({name})" for name in drawn))
    write_text(folder / "README.md", "\n".join(lines) + "\n")
    return str(folder)


def _pretrainings() -> list[Path]:
    """The folders of finished pre-trainings."""
    folders = sorted((runs_root() / "pretrain").glob("*"))
    return [folder for folder in folders if read_record(folder).get("state") == "finished"]
