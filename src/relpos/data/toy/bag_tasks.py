"""The tasks that a bag of words decides: SST-2, QQP, STS-B and MNLI. No single word gives the label away.

SST-2 is a majority of three words. The others compare two sentences whose words are drawn from the same distribution, so that
a word is as frequent under one label as under another.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.chance import Chance
from relpos.data.toy.events import bare, opposed_events, part_of, synonym, two_events
from relpos.data.toy.grammar import Event, Words
from relpos.data.toy.order_tasks import Item, item

ROLES = ("agent", "verb", "patient")


def opinion(chance: Chance, part: str, positive: bool) -> Words:
    """Three words of praise and blame; two of them are praise where the opinion is positive, else blame."""
    majority, minority = (lexicon.POSITIVE, lexicon.NEGATIVE) if positive else (lexicon.NEGATIVE, lexicon.POSITIVE)

    def draw() -> list[str]:
        return chance.distinct([*chance.distinct(majority, 2), chance.pick(minority)], 3)

    a, b, c = chance.until(draw, lambda words: part_of(" ".join(sorted(words))) == part)
    thing = chance.pick(lexicon.THINGS)
    frames = (
        ["the", thing, "is", a, ",", b, "and", c, "."],
        ["the", a, thing, "is", b, "and", c, "."],
        [a, "and", b, ",", "the", thing, "is", c, "."],
        [a, "but", b, ",", "the", thing, "is", c, "."],
    )
    return chance.pick(frames)


def sst2(chance: Chance, part: str) -> Item:
    positive = chance.coin()
    return item("1" if positive else "0", opinion(chance, part, positive))


def qqp(chance: Chance, part: str) -> Item:
    """The same question in synonyms, or a question about another noun and another verb."""
    same = chance.coin()
    kept = set(ROLES) if same else {chance.pick(("agent", "patient"))}
    first, (agent, verb, patient) = two_events(chance, part, kept, lexicon.PEOPLE, lexicon.VERBS)
    ask = grammar.whether if chance.coin() else grammar.whether_passive
    return item("1" if same else "0", ask(bare(*first)), ask(bare(agent, synonym(chance, verb), patient)))


def stsb(chance: Chance, part: str) -> Item:
    """0 to 3 of agent, verb and patient are kept; each is worth 5/3."""
    kept = chance.below(4)
    first, second = two_events(chance, part, set(chance.distinct(ROLES, kept)), lexicon.PEOPLE, lexicon.VERBS)
    return item(f"{5 * kept / 3:.3f}", grammar.active(bare(*first)), grammar.active(bare(*second)))


def mnli(chance: Chance, part: str, nouns: tuple[str, ...] = lexicon.ANIMALS) -> Item:
    """Entailment: synonyms. Neutral: another noun and verb. Contradiction: the opposite, or `not` on one side.

    `not` is as frequent in either sentence under every label.
    """
    label = chance.pick(("entailment", "neutral", "contradiction"))
    # As in contradictions: half of them have one `not`, in either sentence equally often, which is a quarter for each sentence.
    negated = other_negated = chance.coin(0.25)
    if label == "contradiction" and chance.coin():
        premise, hypothesis = opposed_events(chance, part, nouns)
        negated = other_negated = False
    elif label == "neutral":
        premise, hypothesis = two_events(chance, part, {chance.pick(("agent", "patient"))}, nouns, lexicon.OPPOSABLE)
    else:
        premise, hypothesis = two_events(chance, part, set(ROLES), nouns, lexicon.OPPOSABLE)
        negated = chance.coin() if label == "contradiction" else negated
        other_negated = negated != (label == "contradiction")
    agent, verb, patient = hypothesis
    first, second = bare(*premise), bare(agent, synonym(chance, verb), patient)
    return item(label, grammar.active(first, negated=negated), grammar.active(second, negated=other_negated))


def mnli_mismatched(chance: Chance, part: str) -> Item:
    """The same with nouns of the other domain, never seen in this task's train file."""
    return mnli(chance, part, lexicon.WORKERS)


def weakened(event: Event) -> Event:
    """The same event with less detail: no adjectives, and the agent by its hypernym."""
    agent = replace(event.agent, noun=lexicon.HYPERNYM[event.agent.noun], adjective="")
    return Event(agent, event.verb, replace(event.patient, adjective=""))
