"""A wrong word is one line that names the word and the nearest right one."""

from __future__ import annotations

import pytest

from relpos.errors import RelposError
from relpos.runs import compose


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
        ("pretrain", ["steps=many"], "steps=many: a whole number is expected"),
        ("pretrain", ["steps=-5"], "steps=-5: must be 1 or more"),
        ("pretrain", ["steps=1.5"], "steps=1.5: a whole number is expected"),
        ("pretrain", ["k=-3"], "k=-3: must be 0 or more"),
        ("finetune", ["pretrain.steps=-1"], "pretrain.steps=-1: must be 1 or more"),
        ("pretrain", ["first.share=1"], "first.share=1: a share of the steps is expected"),
        ("finetune", ["pretrain.first.share=most"], "pretrain.first.share=most: a number is expected"),
        ("pretrain", ["first.batch=0"], "first.batch=0: must be 1 or more"),
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
