"""Pages of the site that are made from code and data."""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from math import log
from pathlib import Path

import torch
import trained
from _preset import Preset, parameters, presets
from generate import table
from matplotlib import colormaps
from matplotlib.image import imsave
from torch.nn import functional
from trained import HEADS

from relpos import style
from relpos.analysis.patterns import Pattern, draw_pattern
from relpos.config.conf import conf_dir

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".cpp": "cpp",
    ".cff": "yaml",
    ".css": "css",
    ".js": "javascript",
}
WORDS = {"position": "Position schemes", "conv": "Convolutions"}
REAL = ("order_real", "order_2026")
"""Tables of one protocol on real text: the schemes until 2021, and those since."""


DOORS = (
    (
        "gallery/index.md",
        "Compare schemes",
        "each way to know the order: formula, picture, cost, code",
    ),
    (
        "docs/attention.md",
        "Use the attention",
        "learned biases with their gradients, in any torch model",
    ),
    (
        "docs/findings.md",
        "Read the findings",
        "what came out, on a page, and what would overturn it",
    ),
)


def home(readme: str) -> str:
    """README, with three doors behind its first paragraph and the demo's table before its
    commands."""
    title, first, rest = readme.split("\n\n", 2)
    cards = [
        f'<a href="{Path(to).with_suffix(".html")}"><strong>{name}</strong>{says}</a>'
        for to, name, says in DOORS
    ]
    before, heading, demo = rest.partition("## What `make demo` prints\n")
    demo, end, after = demo.partition("\n## ")
    figure, fence, commands = before.partition("```sh\n")
    doors = '<div class="doors">\n' + "\n".join(cards) + "\n</div>"
    return (
        "\n\n".join(
            [title, first, doors, figure.strip(), heading + demo.strip(), fence + commands.strip()]
        )
        + f"\n{end}{after}"
    )


def source(path: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n{fence}\n"


def folder(path: str) -> str:
    """A folder of the repository as a page."""
    names = sorted(
        file.name + "/" * file.is_dir()
        for file in (ROOT / path).iterdir()
        if not file.name.startswith(("_", "."))
    )
    return "\n".join([f"# {path}", "", *(f"- `{name}`" for name in names)]) + "\n"


@cache
def _presets() -> list[Preset]:
    return [*presets("position"), *presets("conv")]


def _page(preset: Preset) -> str:
    return f"gallery/{preset.group}-{preset.name}.md"


def gallery_nav() -> list[dict[str, object]]:
    """The pages of the gallery, by group."""
    return [
        {word: [{p.name: _page(p)} for p in _presets() if p.group == group]}
        for group, word in WORDS.items()
    ]


def patterns() -> dict[str, Pattern]:
    """What each trained scheme adds to the scores."""
    return trained.load()


def draw(patterns: Mapping[str, Pattern], folder: Path) -> None:
    """Two pictures of each scheme: one for the overview, four heads without numbers, and one for
    its page."""
    folder.mkdir(parents=True, exist_ok=True)
    colours = colormaps["RdBu_r"].with_extremes(bad="0.8")  # of tokens that are not seen
    for name, drawn in patterns.items():
        heads = [head / (float(head.nan_to_num().abs().max()) or 1.0) for head in drawn.matrix]
        heads += [torch.zeros_like(heads[0])] * (HEADS - len(heads))  # of a layer without positions
        first, second, third, fourth = (
            functional.pad(head, (0, 1, 0, 1), value=torch.nan) for head in heads
        )
        four = torch.cat([torch.cat([first, second], 1), torch.cat([third, fourth], 1)])[:-1, :-1]
        small = four.repeat_interleave(2, 0).repeat_interleave(2, 1)
        imsave(folder / f"{name}-small.png", small.numpy(), cmap=colours, vmin=-1, vmax=1)
        style.save(draw_pattern(drawn, name, panel=_panel(name)), folder / f"{name}.png", dpi=80)


def gallery(drawn: Collection[str]) -> dict[str, str]:
    """Path → text of the overview and of a page for each option of `position` and `conv`.

    Args:
        drawn: the schemes that have pictures.
    """
    texts = {_page(preset): _mechanism(preset, preset.name in drawn) for preset in _presets()}
    return texts | {"gallery/index.md": _overview(drawn)}


def _overview(drawn: Collection[str]) -> str:
    parts = [
        "# Mechanisms",
        "What each scheme adds to the score of query i and key j in a small trained network: four "
        "heads or, where layers differ, "
        "four layers. Red adds, blue subtracts, grey is not seen.",
    ]
    for group, word in WORDS.items():
        cards = [
            _card(preset, group == "position" and preset.name in drawn)
            for preset in _presets()
            if preset.group == group
        ]
        parts += [f"## {word}", '<div class="gallery">\n' + "\n".join(cards) + "\n</div>"]
    return "\n\n".join(parts) + "\n"


def _card(preset: Preset, drawn: bool) -> str:
    picture = (
        f'<img src="{preset.name}-small.png" alt="pattern of {preset.name}" loading="lazy">'
        if drawn
        else ""
    )
    equations = "<br>".join(formula(equation) for equation in preset.equations)
    name = Path(_page(preset)).with_suffix(".html").name
    return f'<a href="{name}"><strong>{preset.name}</strong>{picture}<small>{equations}</small></a>'


LETTER = r"(?!Σ)[A-Za-zΑ-Ωα-ω]\u0302?"
MARK = re.compile(
    # base, index; `head_dim` is a word
    rf"((?<![^\W_]){LETTER}|Σ|[)\]]|[a-z]+(?=_[a-z]\b))_(\{{[^}}]*\}}|[^\W_]+)"
    r"|\^(\((?:[^()]|\([^()]*\))*\)|\w)"  # what stands above
    rf"|(?<!\w)({LETTER})(?!\w)"  # a letter that stands alone
)


def formula(text: str) -> str:
    """A formula in HTML: letters in italics, indices below and powers above the line.

    >>> formula("T_ij = e^(i θ_m) / √head_dim")
    '<i>T</i><sub>ij</sub> = <i>e</i><sup><i>i</i> <i>θ</i><sub>m</sub></sup> / √head_dim'
    """
    return _marked(_escaped(text))


def _marked(text: str) -> str:
    def marked(match: re.Match[str]) -> str:
        base, below, above, letter = match.groups()
        if above:
            # `T^(0)` is of layer 0, and no power.
            return (
                f"<sup>{_marked(above if above.strip('()').isdigit() else above.strip('()'))}</sup>"
            )
        if letter:
            return f"<i>{letter}</i>"
        shown = (
            f"<i>{base}</i>"
            if base[0].isalpha() and base != "Σ" and len(base.rstrip("\u0302")) == 1
            else base
        )
        return f"{shown}<sub>{below.strip('{}')}</sub>"

    return MARK.sub(marked, text)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mechanism(preset: Preset, drawn: bool) -> str:
    """Formula, picture, cost, command, code."""
    kinds = dict.fromkeys(part.kind for part in preset.parts)
    number, shown = parameters(preset.group, preset.name), drawn and preset.group == "position"
    facts = [
        ["Source", preset.source],
        ["Parameters of its own", f"`{preset.formula}`; at `size=base` {number:,}"],
        *_costs(preset),
        *_order(preset),
    ]
    option = (conf_dir() / preset.group / f"{preset.name}.yaml").read_text(encoding="utf-8").strip()
    parts = [
        f"# {preset.name}",
        *(f'<p class="formula">{formula(equation)}</p>' for equation in preset.equations),
        *(
            [
                f'<img src="{preset.name}.png" alt="what {preset.name} adds to the scores">',
                f"*{_caption(preset.name)}*",
            ]
            if shown
            else []
        ),
        table(["", ""], facts),
        f"```sh\n{preset.command}\n```",
        f"```yaml\n{option}\n```",
        *(f"- {text}" for text in (*preset.options, *preset.differences)),
        "## Code",
        *(_code(kind) for kind in kinds),
    ]
    return "\n\n".join(parts) + "\n"


def _panel(name: str) -> str:
    return (
        "layer"
        if any(preset.node.get("layers") for preset in _presets() if preset.name == name)
        else "head"
    )


def _caption(name: str) -> str:
    heads = (
        "The heads of the first layer" if _panel(name) == "head" else "The first head of each layer"
    )
    return (
        f"{heads} of a small network that [trained.py](../docs/site/trained.py) trained for 300 "
        f"steps on the demo's language, for "
        "random tokens: the matrix, grey where a token is not seen, and below it mean and 10th to "
        "90th percentile by offset."
    )


def _code(kind: type) -> str:
    module = kind.__module__
    path = Path(module.replace(".", "/")).with_suffix(".py").as_posix()
    return f"[{module}](../{reference_page(f'src/{path}')})\n\n```python\n{inspect.getsource(kind).rstrip()}\n```"


def _costs(preset: Preset) -> Iterable[list[str]]:
    """The rows of docs/mechanisms.md that are about the preset: properties, time, memory."""
    text = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    for head, rows in re.findall(r"^(\| `\w+=` .*)\n\| ---.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        titles = [cell.strip() for cell in head.strip("| ").split(" | ")]
        if titles[0] != f"`{preset.group}=`" or "Equation" in titles:
            continue
        for row in rows.splitlines():
            cells = [cell.strip() for cell in row.strip("| ").split(" | ")]
            if cells[0] == f"`{preset.name}`":
                names = {
                    "embeddings": "before training: added to the embeddings",
                    "q·k": "before training: q·k",
                    "T": "before training: T",
                }
                yield from (
                    [names.get(title, title), cell]
                    for title, cell in zip(titles[1:], cells[1:], strict=True)
                )


def _order(preset: Preset) -> Iterable[list[str]]:
    """What the rows of this name in the tables on real text know of order."""
    for name in REAL:
        folder = f"experiments/results/{name}"
        with (ROOT / folder / "table.csv").open(newline="", encoding="utf-8") as file:
            rows = {row["row"]: row for row in csv.DictReader(file)}
        if row := rows.get(ROWS.get((preset.group, preset.name), preset.name)):
            gap, low, high = (float(row[f"shuffle_gap{end}"]) for end in ("", "_low", "_high"))
            link = f"[{name}](../{folder}/table.md)"
            yield [
                "On real text: shuffle gap, nats",
                f"{gap:.3f} ({low:.3f} to {high:.3f}), {link}",
            ]
            yield [
                "On real text: held-out loss, nats",
                f"{log(float(row['perplexity'])):.3f}, {link}",
            ]


ROWS = {("conv", "inkling"): "kv_short"}
"""Rows whose name is not that of the option."""


def reference_page(path: str) -> str:
    """The page of a module or a package: `src/relpos/model/heads.py` →
    `reference/relpos/model/heads.md`."""
    inner = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    return (
        f"reference/{inner}/index.md"
        if (ROOT / "src" / inner).is_dir()
        else f"reference/{inner}.md"
    )


def reference() -> dict[str, str]:
    """Path → text of the page of each module."""
    return {reference_page(path): _module(path) for path in _modules()}


def _module(path: str) -> str:
    name = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    # Not in the search, where it had five entries of six: who looks for a function looks here.
    return f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n::: {name}\n"


def _modules() -> list[str]:
    files = sorted((ROOT / "src" / "relpos").rglob("*.py"))
    return [file.relative_to(ROOT).as_posix() for file in files if file.name != "__main__.py"]


def reference_nav() -> list[object]:
    """The modules as a tree."""

    def level(folder: Path) -> list[object]:
        inside: list[object] = [
            reference_page((folder / "__init__.py").relative_to(ROOT).as_posix())
        ]
        for path in sorted(folder.iterdir()):
            if path.is_dir() and (path / "__init__.py").is_file():
                inside.append({path.name: level(path)})
            elif path.suffix == ".py" and path.stem not in ("__init__", "__main__"):
                inside.append({path.stem: reference_page(path.relative_to(ROOT).as_posix())})
        return inside

    return level(ROOT / "src" / "relpos")
