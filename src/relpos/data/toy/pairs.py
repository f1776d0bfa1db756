"""Minimal pairs of the toy language: a grammatical sentence and an ungrammatical one, about events
that no training text contains.

In the paradigms of SAME_WORDS both sentences hold the same words, so that only their order tells
them apart; in the others a word is exchanged for another form of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.events import Chance, an_event, swapped, unequal, varied
from relpos.data.toy.grammar import Event, Pair, Words, spelled

VERSION = 1  # raise it when the sentences change: it is kept with the results
PART = "dev"
Paradigm = Callable[[Chance], Pair]
"""Draws a good sentence and a bad one."""


def draw(paradigm: str, seed: int, count: int) -> list[tuple[str, str]]:
    """`count` pairs (good, bad) of a paradigm, as text."""
    chance = Chance(seed, "pairs", paradigm)
    return [
        (spelled(good), spelled(bad))
        for good, bad in (PARADIGMS[paradigm](chance) for _ in range(count))
    ]


def _exchange(form: Callable[..., Words], *words: Callable[[Chance], str]) -> Paradigm:
    """A sentence, which may need drawn words, and the same with its two phrases exchanged."""

    def pair(chance: Chance) -> Pair:
        event = unequal(chance, PART)
        good = form(event, *(word(chance) for word in words))
        return good, event.exchange(good)

    return pair


def _act(chance: Chance) -> str:
    return chance.pick(lexicon.ACTS)


def _neighbours(chance: Chance) -> Pair:
    """the dog chases the cat / dog the chases the cat"""

    def draw() -> Words:
        event = varied(chance, an_event(chance, PART))
        form = chance.pick(grammar.VOICES)
        if chance.coin():
            return form(event, negated=chance.coin())
        return event.subject_relative(_act(chance))

    return swapped(chance, draw)


def _negation_order(chance: Chance) -> Pair:
    """the dog does not chase the cat / the dog not does chase the cat: `not` moves to another
    place."""

    def draw() -> Pair:
        form = chance.pick(grammar.VOICES)
        good = form(unequal(chance, PART), negated=True)
        words = [word for word in good if word != "not"]
        at = chance.below(len(words))
        return good, [*words[:at], "not", *words[at:]]

    return chance.until(draw, lambda pair: not grammar.grammatical(pair[1]))


def _other_number(good: Words, at: int, forms: tuple[str, str]) -> Pair:
    """The word at `at`, one of the two forms, becomes the other."""
    wrong = forms[good[at] == forms[0]]
    return good, [*good[:at], wrong, *good[at + 1 :]]


def _agreement(chance: Chance) -> Pair:
    """the dog chases the cats / the dog chase the cats"""
    event = unequal(chance, PART)
    good = event.active()
    return _other_number(good, len(str(event.agent).split()), _forms(event.verb))


def _agreement_across(relative: Callable[[Event, str], Words]) -> Paradigm:
    """the dog that the cats chase sleeps / … sleep: the verb's subject stands before the relative
    clause."""

    def pair(chance: Chance) -> Pair:
        act = _act(chance)
        good = relative(unequal(chance, PART), act)
        return _other_number(good, len(good) - 2, _forms(act))

    return pair


def _negated_form(chance: Chance) -> Pair:
    """the dog does not chase the cats / the dog does not chases the cats"""
    event = unequal(chance, PART)
    good = event.active(negated=True)
    return _other_number(good, good.index("not") + 1, _forms(event.verb))


def _negated_auxiliary(chance: Chance) -> Pair:
    """the dog does not chase the cats / the dog do not chase the cats"""
    good = unequal(chance, PART).active(negated=True)
    return _other_number(good, good.index("not") - 1, ("do", "does"))


def _determiner(chance: Chance) -> Pair:
    """a dog chases some cats / a dogs …: the determiner that only goes with the other number."""
    event = unequal(chance, PART)
    agent = replace(event.agent, determiner=("a", "some")[event.agent.plural])
    return _other_number(replace(event, agent=agent).active(), 0, ("a", "some"))


def _forms(verb: str) -> tuple[str, str]:
    return verb, lexicon.singular_verb(verb)


SAME_WORDS: dict[str, Paradigm] = {
    "exchanged_arguments": _exchange(Event.active),
    "exchanged_arguments-passive": _exchange(Event.passive),
    "exchanged_arguments-negated": _exchange(lambda event: event.active(negated=True)),
    "exchanged_arguments-question": _exchange(Event.whether),
    "exchanged_arguments-object_relative": _exchange(Event.object_relative, _act),
    "negation-order": _negation_order,
    "word_order-neighbours": _neighbours,
}
OTHERS: dict[str, Paradigm] = {
    "agreement-simple": _agreement,
    "agreement-across_subject_relative": _agreement_across(Event.subject_relative),
    "agreement-across_object_relative": _agreement_across(Event.object_relative),
    "agreement-determiner": _determiner,
    "negation-auxiliary": _negated_auxiliary,
    "negation-form": _negated_form,
}
PARADIGMS = SAME_WORDS | OTHERS
