"""The tasks that only word order decides: CoLA, RTE, MRPC, QNLI and WNLI.

Their rule: the label is drawn independently of the multiset of words of each segment. Every item is built in two versions
that have the same words in each segment and differ in label, and a fair coin chooses between them. An encoder that sees a bag
of words can then do no better than chance, whatever it learns.
"""

from __future__ import annotations

from dataclasses import dataclass

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.chance import Chance
from relpos.data.toy.events import alike, bare, triple, varied
from relpos.data.toy.grammar import Event, Phrase, Words


@dataclass(frozen=True)
class Item:
    """One row of a task: its sentences (one or two), its label as the task's file spells it, and its genre or kind."""

    sentences: tuple[str, ...]
    label: str
    kind: str = ""


def item(label: str, *sentences: Words, kind: str = "") -> Item:
    return Item(tuple(grammar.spelled(words) for words in sentences), label, kind)


def cola(chance: Chance, part: str) -> Item:
    """A sentence, or the same words in an order that is none."""
    draw = chance.below(100)
    kind = "exchange" if draw < 35 else "relative" if draw < 60 else "swap"
    good, bad = _swapped(chance, part) if kind == "swap" else _disagreeing(chance, part, kind == "relative")
    return item("1", good, kind=kind) if chance.coin() else item("0", bad, kind=kind)


def _disagreeing(chance: Chance, part: str, relative: bool) -> tuple[Words, Words]:
    """Two phrases of different number change places and the verbs stay: the dogs chases the cat."""
    one, verb, other = triple(chance, part)
    phrases = (Phrase(one, False, "the"), Phrase(other, True, chance.pick(("the", "some"))))
    first, second = phrases if chance.coin() else phrases[::-1]
    if not relative:
        good = grammar.active(Event(first, verb, second))
        return good, [*second.words(), good[2], *first.words(), "."]
    good = grammar.object_relative(Event(second, verb, first), chance.pick(lexicon.ACTS))
    return good, [*second.words(), "that", *first.words(), *good[5:]]


def _swapped(chance: Chance, part: str) -> tuple[Words, Words]:
    """Two neighbours change places."""

    def draw() -> tuple[Words, Words]:
        good = _any_sentence(chance, part)
        index = chance.below(len(good) - 2)  # the full stop stays where it is
        return good, [*good[:index], good[index + 1], good[index], *good[index + 2 :]]

    return chance.until(draw, lambda pair: not grammar.grammatical(pair[1]))


def _any_sentence(chance: Chance, part: str) -> Words:
    one, verb, other = triple(chance, part)
    event = Event(varied(chance, one), verb, varied(chance, other))
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


def rte(chance: Chance, part: str) -> Item:
    """the dog that (chases the cat | the cat chases) sleeps: so the dog sleeps, and nothing is said of the cat."""
    event = alike(chance, *triple(chance, part))
    act = chance.pick(lexicon.ACTS)
    subject, holds = chance.coin(), chance.coin()
    premise = grammar.subject_relative(event, act) if subject else grammar.object_relative(event, act)
    sleeper = event.agent if subject == holds else event.patient
    return item("entailment" if holds else "not_entailment", premise, grammar.acts(sleeper, act))


def mrpc(chance: Chance, part: str) -> Item:
    """The adverb moves, which changes nothing; or it moves and the nouns change places."""
    event = bare(*triple(chance, part))
    adverb = chance.pick(lexicon.ADVERBS)
    here, there = chance.distinct((grammar.FIRST, grammar.INNER, grammar.LAST), 2)
    same = chance.coin()
    other = event if same else event.exchanged()
    return item("1" if same else "0", grammar.active(event, adverb, here), grammar.active(other, adverb, there))


def qnli(chance: Chance, part: str) -> Item:
    """who chases the cat? The sentence answers it if the cat is chased in it, not if the cat chases."""
    event = alike(chance, *triple(chance, part))
    answers = chance.coin()
    adverb = chance.pick(lexicon.ADVERBS) if chance.coin() else ""
    sentence = grammar.active(event if answers else event.exchanged(), adverb, chance.below(3))
    return item("entailment" if answers else "not_entailment", grammar.who_does(event), sentence)


def wnli(chance: Chance, part: str) -> Item:
    """dogs chase cats because they are angry: the adjective says who is, the agent or the patient."""
    event = bare(*triple(chance, part))
    of_agent, holds = chance.coin(), chance.coin()
    adjective = chance.pick(lexicon.OF_AGENT if of_agent else lexicon.OF_PATIENT)
    meant = event.agent if of_agent == holds else event.patient
    hypothesis = grammar.is_adjective(meant, adjective)
    return item("1" if holds else "0", grammar.because(event, adjective), hypothesis)
