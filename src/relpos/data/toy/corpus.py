"""The pre-training text: pairs of related sentences about events of the train part."""

from __future__ import annotations

from dataclasses import replace

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.events import (
    Chance,
    alike,
    an_event,
    opposed_events,
    synonym,
    varied,
    with_synonym,
)
from relpos.data.toy.grammar import Event, Pair, Phrase
from relpos.data.toy.tasks import motive, opinion, weakened


def pair(chance: Chance) -> Pair:
    """Two sentences, the second related to the first."""
    return chance.pick(KINDS)(chance)


def _event(chance: Chance) -> Event:
    event = an_event(chance, "train")
    if chance.coin():
        return alike(chance, event)
    return varied(chance, event)


def _restated(chance: Chance) -> Pair:
    """The same event in the other voice, with synonyms."""
    event = _event(chance)
    negated = chance.coin(0.2)
    agent = replace(event.agent, adjective=synonym(chance, event.agent.adjective))
    restated = with_synonym(chance, replace(event, agent=agent))
    voices = chance.distinct(grammar.VOICES, 2)
    return voices[0](event, negated=negated), voices[1](restated, negated=negated)


def _moved(chance: Chance) -> Pair:
    """The same event with the adverb at another place."""
    event = _event(chance)
    adverb = chance.pick(lexicon.ADVERBS)
    place, other_place = chance.distinct(grammar.PLACES, 2)
    return event.active(adverb, place), event.active(adverb, other_place)


def _answered(chance: Chance) -> Pair:
    """A question and its answer."""
    event = _event(chance)
    ask = chance.pick(grammar.QUESTIONS)
    adverb = chance.perhaps(lexicon.ADVERBS, 0.3)
    return ask(event), event.active(adverb, chance.below(3))


def _less_detail(chance: Chance) -> Pair:
    """An event, and the same event with less detail."""
    event = _event(chance)
    return event.active(), weakened(event).active()


def _relative(chance: Chance) -> Pair:
    """What the head of a relative clause does."""
    event = _event(chance)
    act = chance.pick(lexicon.ACTS)
    if chance.coin():
        return event.subject_relative(act), event.agent.acts(act)
    return event.object_relative(act), event.patient.acts(act)


def _reason(chance: Chance) -> Pair:
    """An event with its reason, and the reason."""
    event = alike(chance, an_event(chance, "train"))
    adjective, phrase = motive(chance, event)
    return event.because(adjective), phrase.is_adjective(adjective)


def _opposite(chance: Chance) -> Pair:
    """the dog is not big, the dog is small; dogs help cats, dogs do not hinder cats"""
    if chance.coin():
        first, opposed = opposed_events(chance, "train")
        return first.active(), opposed.active(negated=True)
    subject = Phrase(chance.pick(lexicon.PEOPLE), chance.coin(), "the")
    adjective = chance.pick(lexicon.ADJECTIVES)
    opposite = chance.pick(lexicon.OPPOSITES[adjective])
    denied = subject.is_adjective(adjective, negated=True)
    return denied, subject.is_adjective(opposite)


def _opinions(chance: Chance) -> Pair:
    """Two opinions, both positive or both negative."""
    positive = chance.coin()
    return opinion(chance, "train", positive), opinion(chance, "train", positive)


# One is picked at random, so a kind that stands here twice is drawn twice as often.
KINDS = (_restated, _restated, _moved, _answered, _answered, _less_detail, _relative, _reason,
         _opposite, _opinions)  # fmt: skip


def word_list() -> list[str]:
    """ "chase, chases, chased." for every word, and again from the last form to the first.

    SentencePiece proposes as pieces only what occurs in two different space-separated strings. Here
    each form stands beside a comma or full stop once more, so that words become pieces and are not
    cut up.
    """
    return [
        f"{', '.join(order)}." for forms in lexicon.paradigms() for order in (forms, forms[::-1])
    ]
