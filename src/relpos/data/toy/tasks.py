"""The tasks of the toy language, in GLUE's names.

A bag of words decides SST-2, QQP, STS-B and MNLI, and no single word gives the label away: SST-2 is
a majority of three words, the others compare two sentences whose words are drawn from the same
distribution, so that a word is as frequent under one label as under another.

Only word order decides CoLA, RTE, MRPC, QNLI and WNLI: the label is independent of the multiset of
words of each segment. Every item is built in two versions that have the same words in each segment
and opposite labels, and a fair coin chooses between them. An encoder that sees a bag of words can
then do no better than chance, whatever it learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.events import (
    Chance,
    alike,
    an_event,
    opposed_events,
    part_of,
    swapped,
    two_events,
    unequal,
    varied,
    with_synonym,
)
from relpos.data.toy.grammar import Event, Phrase, Words

ROLES: tuple[str, ...] = ("agent", "verb", "patient")


@dataclass(frozen=True)
class Item:
    """One row of a task: its sentences (one or two), and its label as the task's file spells
    it."""

    sentences: tuple[str, ...]
    label: str


def item(label: str, *sentences: Words) -> Item:
    return Item(tuple(map(grammar.spelled, sentences)), label)


def opinion(chance: Chance, part: str, positive: bool) -> Words:
    """Three words of praise and blame; two of them are praise where the opinion is positive, else
    blame."""
    majority = lexicon.NEGATIVE
    minority = lexicon.POSITIVE
    if positive:
        majority, minority = minority, majority

    def draw() -> list[str]:
        return chance.distinct([*chance.distinct(majority, 2), chance.pick(minority)], 3)

    a, b, c = chance.until(draw, lambda words: part_of(" ".join(sorted(words))) == part)
    thing = chance.pick(lexicon.THINGS)
    frames = (
        f"the {thing} is {a} , {b} and {c} .",
        f"the {a} {thing} is {b} and {c} .",
        f"{a} and {b} , the {thing} is {c} .",
        f"{a} but {b} , the {thing} is {c} .",
    )
    return chance.pick(frames).split()


def sst2(chance: Chance, part: str) -> Item:
    positive = chance.coin()
    return item(str(int(positive)), opinion(chance, part, positive))


def qqp(chance: Chance, part: str) -> Item:
    """The same question in synonyms, or a question about another noun and another verb."""
    same, common = chance.coin(), ROLES
    if not same:
        common = (chance.pick(("agent", "patient")),)
    first, second = two_events(chance, part, common)
    ask = Event.whether_passive
    if chance.coin():
        ask = Event.whether
    return item(str(int(same)), ask(first), ask(with_synonym(chance, second)))


def stsb(chance: Chance, part: str) -> Item:
    """The sentences share 0 to 3 of agent, verb and patient; each is worth 5/3."""
    count = chance.below(4)
    first, second = two_events(chance, part, chance.distinct(ROLES, count))
    return item(f"{5 * count / 3:.3f}", first.active(), second.active())


def mnli(chance: Chance, part: str, nouns: tuple[str, ...] = lexicon.ANIMALS) -> Item:
    """Entailment: synonyms. Neutral: another noun and verb. Contradiction: the opposite, or `not`
    on one side.

    `not` is as frequent in either sentence under every label.
    """
    label = chance.pick(("entailment", "neutral", "contradiction"))
    # As in contradictions: half of them have one `not`, in either sentence equally often, which is
    # a quarter for each sentence.
    negated = other_negated = chance.coin(0.25)
    if label == "contradiction" and chance.coin():
        premise, hypothesis = opposed_events(chance, part, nouns)
        negated = other_negated = False
    elif label == "neutral":
        common = [chance.pick(("agent", "patient"))]
        premise, hypothesis = two_events(chance, part, common, nouns, lexicon.OPPOSABLE)
    else:
        premise, hypothesis = two_events(chance, part, ROLES, nouns, lexicon.OPPOSABLE)
        if label == "contradiction":
            negated = chance.coin()
        other_negated = negated != (label == "contradiction")
    hypothesis = with_synonym(chance, hypothesis)
    return item(label, premise.active(negated=negated), hypothesis.active(negated=other_negated))


mnli_mismatched = partial(mnli, nouns=lexicon.WORKERS)
"""The same with nouns of the other domain, never seen in this task's train file."""


def motive(chance: Chance, event: Event) -> tuple[str, Phrase]:
    """An adjective that explains the event, and the phrase it says something about: the agent's or
    the patient's."""
    if chance.coin():
        return chance.pick(lexicon.OF_AGENT), event.agent
    return chance.pick(lexicon.OF_PATIENT), event.patient


def weakened(event: Event) -> Event:
    """The same event with less detail: no adjectives, and the agent by its hypernym."""
    agent = replace(event.agent, noun=lexicon.HYPERNYM[event.agent.noun], adjective="")
    return Event(agent, event.verb, replace(event.patient, adjective=""))


Opposites = tuple[Item, Item]
"""An item, and one of the same words in each segment and of the opposite label."""
Versions = Callable[[Chance, str], Opposites]


def fair(versions: Versions) -> Callable[[Chance, str], Item]:
    """Either version, with probability 1/2."""
    return lambda chance, part: chance.pick(versions(chance, part))


def cola(chance: Chance, part: str) -> Opposites:
    """A sentence, and the same words in an order that is not grammatical."""
    draw = chance.below(100)
    if draw >= 60:
        good, bad = swapped(chance, lambda: _any_sentence(chance, part))
        return item("1", good), item("0", bad)
    # Phrases of different number change places and the verbs stay: the dogs chases the cat.
    event = unequal(chance, part)
    good = event.active()
    if draw >= 35:
        event = event.exchanged()
        good = event.object_relative(chance.pick(lexicon.ACTS))
    return item("1", good), item("0", event.exchange(good))


def _any_sentence(chance: Chance, part: str) -> Words:
    event = varied(chance, an_event(chance, part))
    adverb = chance.pick(lexicon.ADVERBS)
    place = chance.below(3)
    form = chance.below(5)
    if form == 0:
        return event.active(adverb, place)
    if form == 1:
        return event.active(negated=chance.coin())
    if form == 2:
        return event.passive(negated=chance.coin())
    act = chance.pick(lexicon.ACTS)
    if form == 3:
        return event.subject_relative(act)
    return event.object_relative(act)


def rte(chance: Chance, part: str) -> Opposites:
    """the dog that (chases the cat | the cat chases) sleeps: so the dog sleeps, not the cat."""
    event = alike(chance, an_event(chance, part))
    act = chance.pick(lexicon.ACTS)
    hypothesis = event.agent.acts(act)
    holds = _relative(chance, event, act)
    fails = _relative(chance, event.exchanged(), act)
    return item("entailment", holds, hypothesis), item("not_entailment", fails, hypothesis)


def _relative(chance: Chance, event: Event, act: str) -> Words:
    """The event's agent as the head of a relative clause, in which it is the subject or, in the
    exchanged event, the object."""
    if chance.coin():
        return event.subject_relative(act)
    return event.exchanged().object_relative(act)


def mrpc(chance: Chance, part: str) -> Opposites:
    """The adverb moves, which keeps the meaning; or it moves and the nouns change places, which
    does not."""
    event = an_event(chance, part)
    adverb = chance.pick(lexicon.ADVERBS)
    place, other_place = chance.distinct(grammar.PLACES, 2)
    first = event.active(adverb, place)
    same = event.active(adverb, other_place)
    exchanged = event.exchanged().active(adverb, other_place)
    return item("1", first, same), item("0", first, exchanged)


def qnli(chance: Chance, part: str) -> Opposites:
    """who chases the cat? A sentence in which the cat is chased answers it, one in which the cat
    chases does not."""
    event = alike(chance, an_event(chance, part))
    adverb = chance.perhaps(lexicon.ADVERBS, 0.5)
    place = chance.below(3)
    question = event.who_does()
    answer = event.active(adverb, place)
    other = event.exchanged().active(adverb, place)
    return item("entailment", question, answer), item("not_entailment", question, other)


def wnli(chance: Chance, part: str) -> Opposites:
    """dogs chase cats because they are angry: the adjective tells whether `they` is the agent or
    the patient."""
    event = an_event(chance, part)
    adjective, phrase = motive(chance, event)
    hypothesis = phrase.is_adjective(adjective)
    holds = event.because(adjective)
    fails = event.exchanged().because(adjective)
    return item("1", holds, hypothesis), item("0", fails, hypothesis)
