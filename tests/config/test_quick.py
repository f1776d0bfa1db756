"""`quick` composes as Hydra does, and leaves to Hydra what only Hydra understands."""

from collections.abc import Iterator
from itertools import zip_longest

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from relpos.config import quick
from relpos.config.compose import compose, resolved
from relpos.config.conf import conf_dir, defaults_of, options
from schemes import FULL

COMMANDS = sorted(path.stem for path in conf_dir().glob("*.yaml") if path.stem != "command")
VALUES = {
    "pretrain": [
        [
            "seed=3",
            "k=${steps}",
            "size.hidden=16",
            "snapshots=[1,2]",
            "first.share=0.5",
            "position=fixed",
            "position.k=5",
        ],
        [
            "data=files",
            "data.root='a b'",
            "recipe.lr=1e-4",
            "position=absolute_tisa",
            "position.parts.1.kernels=2",
            "steps=1_000",
        ],
        [
            "first.batch=${.length}",
            "precision='${packing} ${k}'",
            "outside=null",
            "recipe=albert_base",
            "length=1e2",
        ],
    ],
    "finetune": [
        [
            "seed=4",
            "task=rte",
            "recipe@pretrain.recipe=mini",
            "pretrain.steps=3",
            "intermediate.task=null",
            "batch=${task.batch}",
        ],
        [
            "task=custom",
            "task.name='it\\'s'",
            "task.labels=['no','yes']",
            "task.folder=.",
            "task.metric=a.b",
            "task.columns=[x,y]",
        ],
        *([f"task={task}", "recipe=tisa"] for task in ("rte", "custom")),
        *([f"task={task}", "recipe=finetune_paper"] for task in ("mnli", "custom")),
    ],
    "reproduce": [
        ["table=demo", "engine.workers=2", "rows=[a,b]", "overrides=['a=b','c=\\'d\\'']"]
    ],
    "order": [["network=x", "pairs=files", "pairs.path='/a b'"]],
}


def every_option(command: str) -> list[list[str]]:
    """Overrides that choose every option of every group of a command at least once."""
    groups = [
        [f"{group}={option}" for option in options()[group.partition("@")[0]]]
        for group in defaults_of(command)
    ]
    return [[override for override in row if override] for row in zip_longest(*groups)] or [[]]


def cases() -> Iterator[tuple[str, list[str]]]:
    """Every option with the first command that has it, and every command at least once: they merge
    the same files.

    RELPOS_FULL=1 takes all options, else two of each group.
    """
    chosen: set[str] = set()
    for command in COMMANDS:
        for number, overrides in enumerate(every_option(command)):
            if not number or ((FULL or number == 1) and not chosen.issuperset(overrides)):
                yield command, overrides
            chosen.update(overrides)
        yield from ((command, overrides) for overrides in VALUES.get(command, []))


@pytest.mark.parametrize(("command", "overrides"), list(cases()))
def test_quick_composes_as_hydra_does(command, overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        expected = hydra_compose(command, overrides=overrides)
    content = quick.merged(command, overrides)
    assert content == OmegaConf.to_container(expected, resolve=False)
    try:
        values = quick.resolved(content)
    except quick.LeftToHydra:
        with pytest.raises(OmegaConfBaseException):
            OmegaConf.to_container(expected, resolve=True, throw_on_missing=True)
    else:
        assert repr(sorted(values.items())) == repr(
            sorted(OmegaConf.to_container(expected, resolve=True).items())
        )


def test_a_configuration_may_be_changed_but_takes_no_new_keys():
    cfg = compose("pretrain", ["size=small"])
    cfg.steps = 7
    assert OmegaConf.is_struct(cfg)
    assert compose("pretrain", ["size=small"]).steps != 7


@pytest.mark.parametrize(
    "override",
    [
        "position=tsa",
        "nokey=1",
        "position.nokey=1",
        "+position.k=3",
        "~conv",
        "k=1,2",
        "position={k: 3}",
        "data/x@y=z",
        "k",
        "size=[1]",
        "hydra.verbose=true",
        "hydra/launcher=joblib",
        "k=[",
        "first={share: 0.5}",
        "position=custom position.k=3",
    ],
)
def test_an_override_that_only_hydra_understands_is_left_to_it(override):
    with pytest.raises(quick.LeftToHydra):
        quick.merged("pretrain", ["position=none", override])


@pytest.mark.parametrize(
    "value", ["${nope}", "${oc.decode:1}", "${now:%H}", "${steps", "???", "${seed}", "\\${k}"]
)
def test_an_interpolation_that_leads_nowhere_is_left_to_omegaconf(value):
    with pytest.raises(quick.LeftToHydra):
        quick.resolved({"seed": value})


@pytest.mark.parametrize(
    ("root", "corpus"),
    [
        ("'$'", "'${.root}{oc.env:HOME,x}'"),
        ("x", "'a${size.bias} ${network}'"),
        ("x", "'${oc.env:NOBODY_SETS_THIS,null}'"),
    ],
)
def test_an_interpolation_in_a_text_is_resolved_as_by_hydra(root, corpus):
    overrides = ["data=files", f"data.root={root}", f"data.corpus={corpus}"]
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        expected = hydra_compose("pretrain", overrides=overrides).data.corpus
    assert resolved(quick.merged("pretrain", overrides))["data"]["corpus"] == expected
