"""A wrong word is one line that names the word and the nearest right one."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from relpos.errors import RelposError
from relpos.runs import compose
from relpos.runs.config import names


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("pretrain", ["position=compsite"], "unknown position 'compsite'. Did you mean 'composite'"),
        ("pretrain", ["size=smal"], "unknown size 'smal'. Did you mean 'small'"),
        ("finetune", ["task=rt"], "unknown task 'rt'. Did you mean 'rte'"),
        ("pretrain", ["stps=4"], "unknown key 'stps'. Did you mean 'steps'"),
        ("pretrain", ["+typo=1"], "unknown key 'typo'. Known: batch,"),
        ("pretrain", ["size.layrs=3"], "unknown key 'size.layrs'. Did you mean 'size.layers'"),
        ("pretrain", ["position=composite", "+position.sclaed=1"], "unknown key 'position.sclaed'. Did you mean 'scaled'"),
        ("pretrain", ["steps=many"], "steps=many: a number is expected"),
        ("pretrain", ["steps=-5"], "steps=-5: must be 1 or more"),
        ("pretrain", ["steps=1.5"], "steps=1.5: a whole number is expected"),
        ("pretrain", ["k=-3"], "k=-3: must be 0 or more"),
        ("finetune", ["pretrain.steps=-1"], "pretrain.steps=-1: must be 1 or more"),
        ("pretrain", ["first.share=1"], "first.share=1: a share of the steps is expected"),
        ("finetune", ["pretrain.first.share=most"], "pretrain.first.share=most: a number is expected"),
        ("pretrain", ["first.batch=0"], "first.batch=0: must be 1 or more"),
        ("pretrain", ["first=null"], "first=null: it has keys of its own, first.share, first.length"),
        ("pretrain", ["steps=null"], "steps=null: a number is expected"),
        ("draw", ["layer=[]"], "layer=[]: a number is expected"),
        ("pretrain", ["first=3"], "first=3: it has keys of its own, first.share"),
        ("finetune", ["pretrain=3"], "pretrain=3: it has keys of its own, pretrain."),
        ("finetune", ["pretrain.first=null"], "pretrain.first=null: it has keys of its own, pretrain.first.share"),
        ("pretrain", ["size=tiny", "recipe=null"], "recipe=null: the name of an option is expected. Known: albert_base,"),
        ("pretrain", ["size=[1,2]"], "size=[1,2]: the name of an option is expected"),
        ("pretrain", ["snapshots=50"], "snapshots=50: a list is expected"),
        ("reproduce", ["retries=often"], "retries=often: a number is expected"),
        ("reproduce", ["retries=-1"], "retries=-1: must be 0 or more"),
        ("reproduce", ["retries=1.5"], "retries=1.5: a whole number is expected"),
        ("reproduce", ["workers=-1"], "workers=-1: must be 1 or more"),
        ("reproduce", ["workers=all"], "workers=all: a whole number is expected"),
        ("reproduce", ["retries=null"], "retries=null: a number is expected"),
        ("pretrain", ["size=3"], "size=3: the name of an option is expected. Known: albert_base,"),
        ("pretrain", ["precision=fp16"], "precision=fp16: not one of fp32, bf16"),
        ("pretrain", ["recipe.lr=high"], "recipe.lr=high: a number is expected"),
        ("pretrain", ["snapshots=[200]"], "snapshots=[200]: per cents"),
        ("pretrain", ["seed=${nope}"], "Interpolation key 'nope' not found"),
        ("pretrain", ["steps"], "Error parsing override 'steps'"),
        ("pretrain", ["position._target_=no.such.Scheme"], "position._target_: cannot import 'no.such.Scheme'"),
    ],
)  # fmt: skip
def test_wrong_words(command: str, words: list[str], said: str) -> None:
    with pytest.raises(RelposError) as caught:
        compose(command, words)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keys_under_a_target_are_its_arguments() -> None:
    assert compose("pretrain", ["position=composite", "position.scaled=false"]).position.scaled is False


@pytest.mark.parametrize(("value", "expected"), [(None, None), ("none", ["none"]), (3, ["3"]), (["a", 1], ["a", "1"]), ([], [])])
def test_one_name_or_a_list(value: object, expected: list[str] | None) -> None:
    assert names(OmegaConf.create({"rows": value}).rows) == expected
