"""A wrong override is one line that names it and the nearest right word."""

import copy
import operator
import re
from collections.abc import Iterator
from functools import cache, reduce
from typing import Any, get_args

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from relpos.config.arguments import rewritten
from relpos.config.check import check
from relpos.config.compose import compose, resolved
from relpos.config.conf import commands, conf_dir, function_of
from relpos.config.help import help_of
from relpos.errors import RelposError
from relpos.model.block import Activation
from relpos.stages.finetune import with_task
from relpos.trust import mistakes

NEEDED = {"reproduce": ["table=demo"]}
"""Command → the overrides that it needs."""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pretrain position=compsite", "unknown position 'compsite'. Did you mean 'composite'"),
        ("pretrain position=none,absolute",
         "position=none,absolute': -m sweeps over commas, and a list stands in brackets"),
        ("pretrain size=smal", "unknown size 'smal'. Did you mean 'small'"),
        ("finetune task=rt", "unknown task 'rt'. Did you mean 'rte'"),
        ("pretrain stps=4", "unknown key 'stps'. Did you mean 'steps'"),
        ("pretrain +typo=1", "unknown key 'typo'. Known: batch,"),
        ("pretrain size.layrs=3", "unknown key 'size.layrs'. Did you mean 'size.layers'"),
        ("pretrain position=composite +position.sclaed=1",
         "unknown key 'position.sclaed'. Did you mean 'scaled'"),
        ("pretrain steps=many", "steps=many: a whole number of 0 or more is expected"),
        ("pretrain steps=-5", "steps=-5: a whole number of 0 or more is expected"),
        ("pretrain steps=1.5", "steps=1.5: a whole number of 0 or more is expected"),
        ("pretrain k=-3", "k=-3: a whole number of 0 or more is expected"),
        ("finetune pretrain.steps=-1",
         "pretrain.steps=-1: a whole number of 0 or more is expected"),
        ("pretrain first.share=1",
         "first.share=1: a number from 0 up to, not including, 1 is expected"),
        ("finetune pretrain.first.share=most", "pretrain.first.share=most: a number from 0"),
        ("pretrain first.batch=0", "first.batch=0: a whole number from 1 to 1,000,000 is expected"),
        ("pretrain first=null", "first=null: it has keys of its own, first.share, first.length"),
        ("pretrain steps=null", "steps=null: a whole number of 0 or more is expected"),
        ("analyze kind=patterns kind.layer=[]",
         "kind.layer=[]: a whole number of 1 or more is expected"),
        ("pretrain data=toy data.corpus=x",
         "data.corpus: a key of data=files, which must be chosen beside it"),
        ("pretrain position=merge position.parts=[rope]",
         "position.parts=['rope']: a list [{_target_: module.Class}"),
        (["pretrain", "first={shar: 1}"], "unknown key 'first.shar'. Did you mean 'first.share'"),
        (["pretrain", "+first={shar: 1}"], "unknown key 'first.shar'. Did you mean 'share'"),
        (["pretrain", "+first={1: 2}"],
         "unknown key 'first.1'. Known: batch, length, packing, share"),
        ("params position=nan", "position=nan: the name of an option is expected"),
        ("params position=True", "position=True: the name of an option is expected"),
        ("analyze toeplitz profiles network=x",
         "profiles: relpos analyze takes one kind, and toeplitz is one"),
        ("compare A network=[B]", "A: give it by itself or in network=[…], not both ways"),
        ("pretrain first=3", "first=3: it has keys of its own, first.share"),
        ("finetune pretrain=3", "pretrain=3: it has keys of its own, pretrain."),
        ("finetune pretrain.first=null",
         "pretrain.first=null: it has keys of its own, pretrain.first.share"),
        ("pretrain size=tiny recipe=null",
         "recipe=null: the name of an option is expected. Known: albert_base,"),
        ("pretrain size=[1,2]", "size=[1,2]: the name of an option is expected"),
        ("pretrain snapshots=50",
         "snapshots=50: a list [a whole number from 1 to 100, …] is expected"),
        ("reproduce retries=often", "retries=often: a whole number of 0 or more is expected"),
        ("reproduce retries=-1", "retries=-1: a whole number of 0 or more is expected"),
        ("reproduce retries=1.5", "retries=1.5: a whole number of 0 or more is expected"),
        ("reproduce pretrain_seeds=0", "pretrain_seeds=0: a whole number from 1 to 1,000, a list"),
        ("reproduce workers=-1", "workers=-1: a whole number of 1 or more or null is expected"),
        ("reproduce workers=all", "workers=all: a whole number of 1 or more or null is expected"),
        ("reproduce retries=null", "retries=null: a whole number of 0 or more is expected"),
        ("pretrain size=3", "size=3: the name of an option is expected. Known: albert_base,"),
        ("pretrain precision=fp16", "precision=fp16: fp32 or bf16 is expected"),
        ("pretrain recipe.lr=high", "recipe.lr=high: a number of 0 or more is expected"),
        ("pretrain snapshots=[200]",
         "snapshots=[200]: a list [a whole number from 1 to 100, …] is expected"),
        ("pretrain position=t5 position.buckets=many",
         "position.buckets=many: a whole number of 1 or more is expected"),
        ("pretrain position=tisa kernels=1.5",
         "kernels=1.5: a whole number of 0 or more is expected"),
        ("pretrain position=fixed outside=clmp",
         "outside=clmp: clamp or zero is expected. Did you mean 'clamp'"),
        ("pretrain position=absolute_tisa position.parts.1.kernels=x",
         "position.parts.1.kernels=x: a whole number"),
        ("pretrain logger=wandb logger.mode=ofline",
         "logger.mode=ofline: auto, online or offline is expected"),
        ("reproduce engine=slurm engine.time=x",
         "engine.time=x: a whole number of 1 or more is expected"),
        ("analyze kind=lengths network=x kind.amount=0",
         "kind.amount=0: a whole number of 1 or more is expected"),
        ("analyze kind=lengths network=x kind.lengths=[4]",
         "kind.lengths=[4]: a list [a whole number of 8 or more, …]"),
        ("pretran", "unknown command 'pretran'. Did you mean 'pretrain'"),
        ("pretrain seed=${nope}", "Interpolation key 'nope' not found"),
        ("pretrain steps", "'steps': overrides have the form KEY=VALUE"),
        (["pretrain", ""], "'': overrides have the form KEY=VALUE"),
        (["pretrain", "k = 3"],
         "'k = 3': overrides have the form KEY=VALUE, without spaces around the ="),
        ("pretrain =3", "'=3': overrides have the form KEY=VALUE"),
        ("pretrain ~position",
         "~position: every key is needed; give it another value, position=VALUE"),
        ("pretrain k=４",
         "k=４: the value cannot be read. If it is a text with spaces or other signs than"),
        ("pretrain position=😀", "position=😀: the value cannot be read"),
        ("pretrain k='", "k=': the value cannot be read"),
        (["order", "text=the [MASK] sleeps", "network=x"],
         'it needs quotes of its own: "text=\'…\'"'),
        ("pretrain position=" + "a" * 100_000,
         "aaa: the name of an option is expected. Known: absolute"),
        ("pretrain seed=" + "9" * 100_000,
         "seed=99999999999999999999…: a number of more than 1,000 digits"),
        ("pretrain seed=18446744073709551616",
         "seed=18446744073709551616: no number above 9,223,372,036,854,775,807"),
        ("pretrain steps=99999999999999999999999999",
         "steps=99999999999999999999999999: no number above"),
        ("pretrain recipe.lr=" + "9" * 400, "9: no number above"),
        ("pretrain hydra/launcher=3", "hydra/launcher=3: the name of an option is expected."),
        ("pretrain hydra/launcher=nope", "unknown hydra/launcher 'nope'. Known: basic"),
        ("pretrain position._target_=no.such.Scheme",
         "only names of relpos.model.position are allowed; trust=no.such"),
        ("pretrain position=absolute_tisa position.parts.absolute.k=1 steps=3",
         "position.parts.absolute.k=1: Index 'absolute' (str) is not an int"),
        ("finetune task=rte network=", "network=: a value is expected behind the =; null"),
        ("data data=files data.corpus=''", "data.corpus='': a value is expected behind"),
        ("order network=x pairs=files pairs.path=[a,b]", "pairs.path=['a', 'b']: "),
        ("pretrain snapshots.a=1", "snapshots.a=1: invalid literal"),
        ("pretrain callbacks=3", "callbacks=3: Config group override must be a string"),
        ("pretrain hydra.sweeper.params={seed:1}", "hydra.sweeper.params={seed:1}: 'None"),
    ],
)  # fmt: skip
def test_wrong_overrides(line, message):
    command, *overrides = line.split() if isinstance(line, str) else line
    with pytest.raises(RelposError) as caught:
        compose(command, [*NEEDED.get(command, ()), *overrides])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@cache
def composed(command: str) -> DictConfig:
    return compose(command, NEEDED.get(command, ()))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pretrain recipe.lr=nan", "recipe.lr=nan: a number of 0 or more is expected"),
        ("pretrain recipe.lr=-1", "recipe.lr=-1: a number of 0 or more is expected"),
        ("pretrain recipe.lr=inf", "recipe.lr=inf: a number of 0 or more is expected"),
        ("pretrain recipe.betas=[2,3]",
         "recipe.betas=[2, 3]: a list of 2, each a number from 0 up to"),
        ("pretrain recipe.betas=0.9", "recipe.betas=0.9: a list of 2"),
        ("pretrain recipe.warmup=-1", "recipe.warmup=-1: a number of 0 or more is expected"),
        ("pretrain recipe.clip=0", "recipe.clip=0: a number above 0 is expected"),
        ("pretrain recipe.batch=0",
         "recipe.batch=0: a whole number from 1 to 1,000,000 is expected"),
        ("finetune recipe.epochs=-1", "recipe.epochs=-1: a number above 0 or null is expected"),
        ("finetune pretrain.recipe.lr=-1",
         "pretrain.recipe.lr=-1: a number of 0 or more is expected"),
        ("pretrain speed.devices=0", "speed.devices=0: a whole number of 1 or more is expected"),
        ("pretrain speed.threads=1000000",
         "speed.threads=1000000: a whole number from 1 to 1,024 or null is expected"),
        ("pretrain batch=100000000",
         "batch=100000000: a whole number from 1 to 1,000,000 is expected"),
        ("reproduce seeds=999999999", "seeds=999999999: a whole number from 1 to 1,000, a list"),
        ("pretrain speed.threads=-4",
         "speed.threads=-4: a whole number from 1 to 1,024 or null is expected"),
        ("pretrain speed.accelerator=gpus",
         "speed.accelerator=gpus: auto, cpu or gpu is expected. Did you mean 'gpu'"),
        ("pretrain speed.kernel=fuzed",
         "speed.kernel=fuzed: auto, triton, compiled, fused or eager is expected"),
        ("pretrain length=4", "length=4: a whole number of 8 or more is expected"),
        ("pretrain vocabulary=0", "vocabulary=0: a whole number from 1 to 1,000,000 is expected"),
        ("pretrain size.dropout=1",
         "size.dropout=1: a number from 0 up to, not including, 1 is expected"),
        ("pretrain size.share_layers=2", "size.share_layers=2: true or false is expected"),
        ("pretrain data.heldout=0", "data.heldout=0: a number between 0 and 1 is expected"),
        ("pretrain data.sample=0", "data.sample=0: a whole number of 1 or more is expected"),
        ("pretrain data.pairs=0", "data.pairs=0: a whole number of 1 or more or null is expected"),
        ("finetune task.batch=0", "task.batch=0: a whole number from 1 to 1,000,000 is expected"),
        ("reproduce dry_run=maybe", "dry_run=maybe: true or false is expected"),
        ("reproduce engine.runs_per_device=0",
         "engine.runs_per_device=0: a whole number of 1 or more is expected"),
        ("status every=0", "every=0: a number above 0 is expected"),
    ],
)  # fmt: skip
def test_wrong_values(line, message):
    command, override = line.split()
    cfg = composed(command).copy()
    key, _, value = override.partition("=")
    OmegaConf.update(
        cfg, key, yaml.safe_load(value) if value not in ("nan", "inf") else float(value)
    )
    with pytest.raises(RelposError) as caught:
        check(resolved(cfg), command, [override])
    assert str(caught.value).startswith(message)


def leaves(node: Any, path: str = "") -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        elif not key.startswith("_"):
            yield f"{path}{key}"


@pytest.mark.parametrize("command", commands())
def test_every_dial_has_a_kind(command):
    content = OmegaConf.load(conf_dir() / f"{command}.yaml")
    overrides = [f"{key}=x" for key in content if OmegaConf.is_missing(content, key)]
    plain: Any = OmegaConf.to_container(compose(command, overrides), resolve=True)
    for path in leaves(plain):
        changed = copy.deepcopy(plain)
        *groups, key = path.split(".")
        reduce(operator.getitem, groups, changed)[key] = object()
        assert any(
            f"{path}.".startswith(f"{key}.") for key, _ in mistakes(changed, function_of(command))
        ), path


def test_the_override_as_typed_is_named_and_not_a_dial_that_follows_it():
    for override in ("batch=0", "recipe.batch=0", "first.batch=0", "position.k=-1"):
        with pytest.raises(RelposError, match=f"^{override}: "):
            compose("pretrain", ["position=fixed", override])


def test_keys_under_a_target_are_its_arguments():
    assert (
        compose("pretrain", ["position=composite", "position.scaled=false"]).position.scaled
        is False
    )


def test_a_sweep_is_no_value():
    with pytest.raises(RelposError, match="seed=1,2"):
        compose("pretrain", ["seed=1,2"])


def test_an_option_file_that_is_no_yaml_is_named_with_its_line(tmp_path, refused):
    (tmp_path / "position").mkdir()
    (tmp_path / "position" / "mine.yaml").write_text("_target_: [a\nb: }", encoding="utf-8")
    assert f"{tmp_path}/position/mine.yaml:2: not YAML" in refused(
        "params", "--config-dir", str(tmp_path), "position=mine"
    )


def test_a_typed_value_wins_over_a_task_file(tmp_path):
    (tmp_path / "t.yaml").write_text("columns: [a]\nlabel: b\nepochs: 5\n", encoding="utf-8")
    assert compose("finetune", ["task.epochs=9", f"task={tmp_path / 't.yaml'}"]).task.epochs == 9


def test_a_task_file_refers_to_nothing(tmp_path):
    (tmp_path / "t.yaml").write_text("columns: [a]\nlabel: ${oc.env:HOME,x}\n", encoding="utf-8")
    with pytest.raises(RelposError, match="may not refer to anything"):
        with_task({"task": {"name": "cola"}}, str(tmp_path / "t.yaml"))


def test_a_file_of_pairs_may_stand_in_quotes():
    assert compose("order", ["network=x", "pairs='a dir/b c.txt'"]).pairs.path == "a dir/b c.txt"


def test_a_network_in_an_unknown_home_gets_the_recipe_of_base():
    assert rewritten("finetune", ["network=~nobody-at-all/x"])[-1] == "recipe=finetune_base"


@pytest.mark.parametrize("recipe", ["finetune_base", "finetune_mini"])
def test_help_has_the_comments_of_the_option_on_which_another_is_based(recipe):
    shown = help_of("finetune", [f"recipe={recipe}"])
    assert re.search(r"steps: null +# the task's own, scaled to the rows there are\n", shown)
    assert re.search(r"epochs: null +# instead of steps\n", shown)


def test_help_takes_no_comment_from_an_option_of_another_class():
    assert "Local # " not in help_of("reproduce")  # the debug engine says so of itself
    # columns of a table, not those with the texts of one's own task
    assert "[premise, hypothesis]" not in help_of("finetune")


def test_help_spells_a_column_as_a_record_does():
    assert (
        re.findall(r"-(\w+): one of which more is better", help_of("finetune"))
        == compose("finetune", ["task=rte"]).task.columns
    )


def test_help_names_every_activation():
    [line] = re.findall(r"activation: .*", help_of("pretrain"))
    assert set(get_args(Activation)) <= set(re.findall(r"\w+", line))


def test_help_shows_a_long_value_to_its_end():
    assert "30]" in help_of("pretrain", [f"snapshots=[{','.join(map(str, range(1, 31)))}]"])


@pytest.mark.parametrize(
    ("command", "stage"),
    [("pretrain", "finetune"), ("finetune", "pretrain"), ("data", "noop"), ("pretrain", "x")],
)
def test_a_command_is_of_one_stage(command, stage):
    with pytest.raises(RelposError, match=f"stage={stage}: .* is expected"):
        compose(command, [f"stage={stage}"])
