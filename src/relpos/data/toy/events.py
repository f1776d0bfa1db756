"""Drawing events so that what is held out for dev and test is held out everywhere.

The key of an event is its two nouns, sorted, and the sense of its verb; a hash of the key puts the
event into train, dev or test. So neither a permutation of a dev sentence, nor its passive, nor its
synonyms occur in a train file or in the corpus.

Draws are the same on every machine: of `Random` only `random` is used, which no Python version has
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from random import Random
from typing import TypeVar

from relpos.data.toy import lexicon
from relpos.data.toy.grammar import Event, Pair, Phrase, Words, grammatical

T = TypeVar("T")
Events = tuple[Event, Event]
# bounds every rejection loop; the toy language's strictest, for two events of dev or test, accepts
# 1 % of draws
ATTEMPTS = 10_000


class Chance:
    """A stream of draws named by plain values: `Chance(seed, "CoLA", "dev")` is the same whatever
    else was drawn."""

    def __init__(self, *names: object) -> None:
        # a string is hashed by SHA-512, not by `hash`
        self._random = Random(":".join(map(str, names)))

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def coin(self, probability: float = 0.5) -> bool:
        return self._random.random() < probability

    def pick(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def perhaps(self, words: Sequence[str], probability: float) -> str:
        """One of the words with this probability, else none."""
        if self.coin(probability):
            return self.pick(words)
        return ""

    def distinct(self, values: Sequence[T], count: int) -> list[T]:
        """`count` different entries of `values`, in random order."""
        remaining = list(values)
        return [remaining.pop(self.below(len(remaining))) for _ in range(count)]

    def until(self, draw: Callable[[], T], accept: Callable[[T], bool]) -> T:
        """The first draw that is accepted.

        Raises:
            RuntimeError: none of `ATTEMPTS` draws was; the language has no such sentence.
        """
        for _ in range(ATTEMPTS):
            value = draw()
            if accept(value):
                return value
        raise RuntimeError(f"no draw was accepted in {ATTEMPTS} attempts")


PARTS = ("dev", "test", "train", "train", "train", "train", "train", "train")


@cache  # the language has 2,280 events and 448 opinions
def part_of(key: str) -> str:
    """train (6/8 of the keys), dev or test. The same for every seed."""
    return PARTS[int.from_bytes(sha256(key.encode()).digest()[:4], "big") % len(PARTS)]


@cache  # some hundred thousand draws are of a few thousand events
def key(agent: str, verb: str, patient: str) -> str:
    return " ".join([*sorted((agent, patient)), lexicon.sense(verb)])


def bare(agent: str, verb: str, patient: str) -> Event:
    """dogs chase cats"""
    return Event(Phrase(agent), verb, Phrase(patient))


def _of(part: str, *events: Event) -> bool:
    return all(
        part_of(key(event.agent.noun, event.verb, event.patient.noun)) == part for event in events
    )


def an_event(chance: Chance, part: str) -> Event:
    """A bare event of this part."""

    def draw() -> Event:
        agent, patient = chance.distinct(lexicon.PEOPLE, 2)
        return bare(agent, chance.pick(lexicon.VERBS), patient)

    return chance.until(draw, lambda event: _of(part, event))


def two_events(
    chance: Chance,
    part: str,
    common: Collection[str],
    nouns: Sequence[str] = lexicon.PEOPLE,
    verbs: Sequence[str] = lexicon.VERBS,
) -> Events:
    """Two bare events of this part that agree in `common`, a subset of {agent, verb, patient}, and
    in nothing else.

    Verbs that differ do so in sense. The two are drawn alike, so no word tells the first from the
    second.
    """

    def draw() -> Events:
        agent, patient, other_agent, other_patient = chance.distinct(nouns, 4)
        first = bare(agent, chance.pick(verbs), patient)
        other_verb = first.verb
        if "verb" not in common:
            other_verb = chance.pick(verbs)
        other = bare(other_agent, other_verb, other_patient)
        return first, replace(other, **{role: getattr(first, role) for role in common})

    def accept(events: Events) -> bool:
        senses = {lexicon.sense(event.verb) for event in events}
        return _of(part, *events) and ("verb" in common or len(senses) == 2)

    return chance.until(draw, accept)


def opposed_events(
    chance: Chance,
    part: str,
    nouns: Sequence[str] = lexicon.PEOPLE,
) -> Events:
    """Two bare events of this part whose verbs are opposites: dogs help cats, dogs hinder cats."""

    def draw() -> Events:
        agent, patient = chance.distinct(nouns, 2)
        event = bare(agent, chance.pick(lexicon.OPPOSABLE), patient)
        return event, replace(event, verb=chance.pick(lexicon.OPPOSITES[event.verb]))

    return chance.until(draw, lambda events: _of(part, *events))


def synonym(chance: Chance, word: str) -> str:
    """The word or, as often, its synonym; the word where it has none."""
    if chance.coin():
        return lexicon.SYNONYM.get(word, word)
    return word


def with_synonym(chance: Chance, event: Event) -> Event:
    return replace(event, verb=synonym(chance, event.verb))


def varied(chance: Chance, event: Event) -> Event:
    """The event with phrases of any number and determiner."""

    def phrase(noun: str) -> Phrase:
        plural = chance.coin()
        adjective = chance.perhaps(lexicon.ADJECTIVES, 0.3)
        determiners = (("the", "the", "a"), ("the", "some", ""))[plural]
        return Phrase(noun, plural, chance.pick(determiners), adjective)

    return Event(phrase(event.agent.noun), event.verb, phrase(event.patient.noun))


def alike(chance: Chance, event: Event) -> Event:
    """Both nouns in the same number and with the same determiner, so that agreement does not show
    who does it to whom."""
    plural, determiner = chance.coin(), "the"
    if plural:
        determiner = chance.pick(("the", ""))
    agent, patient = (
        replace(phrase, plural=plural, determiner=determiner)
        for phrase in (event.agent, event.patient)
    )
    return Event(agent, event.verb, patient)


def unequal(chance: Chance, part: str) -> Event:
    """An event of two phrases of different number, so that exchanging them breaks the agreement."""
    event = an_event(chance, part)
    agent = Phrase(event.agent.noun, False, "the")
    patient = replace(event.patient, determiner=chance.pick(("the", "some")))
    event = Event(agent, event.verb, patient)
    if chance.coin():
        return event
    return event.exchanged()


def swapped(chance: Chance, draw: Callable[[], Words]) -> Pair:
    """A drawn sentence, and the same with two neighbours exchanged, which is no sentence."""

    def variants() -> Pair:
        good = draw()
        at = chance.below(len(good) - 2)  # the full stop stays where it is
        return good, [*good[:at], good[at + 1], good[at], *good[at + 2 :]]

    return chance.until(variants, lambda drawn: not grammatical(drawn[1]))
