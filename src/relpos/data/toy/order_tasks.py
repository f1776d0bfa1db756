"""The tasks that only word order decides: CoLA, RTE, MRPC, QNLI and WNLI.

Their rule: the label is independent of the multiset of words of each segment. Every item is built in two versions that
have the same words in each segment and opposite labels, and a fair coin chooses between them. An encoder that sees a
bag of words can then do no better than chance, whatever it learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.chance import Chance
from relpos.data.toy.events import alike, bare, exchanged, triple, unequal, varied
from relpos.data.toy.grammar import Event, Words


@dataclass(frozen=True)
class Item:
    """One row of a task: its sentences (one or two), its label as the task's file spells it, and its genre or kind."""

    sentences: tuple[str, ...]
    label: str
    kind: str = ""


def item(label: str, *sentences: Words, kind: str = "") -> Item:
    return Item(tuple(grammar.spelled(words) for words in sentences), label, kind)


Versions = Callable[[Chance, str], tuple[Item, Item]]


def fair(versions: Versions) -> Callable[[Chance, str], Item]:
    """Either version, with probability 1/2."""
    return lambda chance, part: chance.pick(versions(chance, part))


def cola(chance: Chance, part: str) -> tuple[Item, Item]:
    """A sentence, and the same words in an order that is not grammatical."""
    draw = chance.below(100)
    kind = "exchange" if draw < 35 else "relative" if draw < 60 else "swap"
    good, bad = _swapped(chance, part) if kind == "swap" else _disagreeing(chance, part, kind == "relative")
    return item("1", good, kind=kind), item("0", bad, kind=kind)


def _disagreeing(chance: Chance, part: str, relative: bool) -> tuple[Words, Words]:
    """Two phrases of different number change places and the verbs stay: the dogs chases the cat."""
    event = unequal(chance, part)
    if relative:
        event = event.exchanged()
        good = grammar.object_relative(event, chance.pick(lexicon.ACTS))
    else:
        good = grammar.active(event)
    return good, exchanged(good, event)


def _swapped(chance: Chance, part: str) -> tuple[Words, Words]:
    """Two neighbours change places."""

    def draw() -> tuple[Words, Words]:
        good = _any_sentence(chance, part)
        index = chance.below(len(good) - 2)  # the full stop stays where it is
        return good, [*good[:index], good[index + 1], good[index], *good[index + 2 :]]

    return chance.until(draw, lambda pair: not grammar.grammatical(pair[1]))


def _any_sentence(chance: Chance, part: str) -> Words:
    agent, verb, patient = triple(chance, part)
    event = Event(varied(chance, agent), verb, varied(chance, patient))
    adverb, place = chance.pick(lexicon.ADVERBS), chance.below(3)
    form = chance.below(5)
    if form == 0:
        return grammar.active(event, adverb, place)
    if form == 1:
        return grammar.active(event, negated=chance.coin())
    if form == 2:
        return grammar.passive(event, negated=chance.coin())
    relative = grammar.subject_relative if form == 3 else grammar.object_relative
    return relative(event, chance.pick(lexicon.ACTS))


def rte(chance: Chance, part: str) -> tuple[Item, Item]:
    """the dog that (chases the cat | the cat chases) sleeps: so the dog sleeps, not the cat."""
    event = alike(chance, *triple(chance, part))
    act = chance.pick(lexicon.ACTS)
    hypothesis = grammar.acts(event.agent, act)
    holds = _relative(chance, event, act)
    fails = _relative(chance, event.exchanged(), act)
    return item("entailment", holds, hypothesis), item("not_entailment", fails, hypothesis)


def _relative(chance: Chance, event: Event, act: str) -> Words:
    """The event's agent as the head of a relative clause, in which it is the subject or, in the exchanged event, the object."""
    if chance.coin():
        return grammar.subject_relative(event, act)
    return grammar.object_relative(event.exchanged(), act)


def mrpc(chance: Chance, part: str) -> tuple[Item, Item]:
    """The adverb moves, which keeps the meaning; or it moves and the nouns change places, which does not."""
    event = bare(*triple(chance, part))
    adverb = chance.pick(lexicon.ADVERBS)
    place, other_place = chance.distinct((grammar.FIRST, grammar.INNER, grammar.LAST), 2)
    first = grammar.active(event, adverb, place)
    same = grammar.active(event, adverb, other_place)
    exchanged = grammar.active(event.exchanged(), adverb, other_place)
    return item("1", first, same), item("0", first, exchanged)


def qnli(chance: Chance, part: str) -> tuple[Item, Item]:
    """who chases the cat? A sentence in which the cat is chased answers it, one in which the cat chases does not."""
    event = alike(chance, *triple(chance, part))
    adverb, place = chance.pick(lexicon.ADVERBS) if chance.coin() else "", chance.below(3)
    question = grammar.who_does(event)
    answer, exchanged = grammar.active(event, adverb, place), grammar.active(event.exchanged(), adverb, place)
    return item("entailment", question, answer), item("not_entailment", question, exchanged)


def wnli(chance: Chance, part: str) -> tuple[Item, Item]:
    """dogs chase cats because they are angry: the adjective tells whether `they` is the agent or the patient."""
    event = bare(*triple(chance, part))
    of_agent = chance.coin()
    adjective = chance.pick(lexicon.OF_AGENT if of_agent else lexicon.OF_PATIENT)
    hypothesis = grammar.is_adjective(event.agent if of_agent else event.patient, adjective)
    holds, fails = grammar.because(event, adjective), grammar.because(event.exchanged(), adjective)
    return item("1", holds, hypothesis), item("0", fails, hypothesis)
