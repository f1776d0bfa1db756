"""The tasks that a bag of words decides: SST-2, QQP, STS-B and (almost) MNLI. No single word gives the label away.

Words stand in the same proportions under every label: SST-2 is a majority of three, the others compare two sentences, and the
second one's words are drawn as the first one's are.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.data.toy import grammar, lexicon
from relpos.data.toy.chance import Chance
from relpos.data.toy.events import bare, part_of, two_events
from relpos.data.toy.grammar import Event, Words
from relpos.data.toy.order_tasks import Item, item

ROLES = ("agent", "verb", "patient")
OPPOSABLE = tuple(verb for verb in lexicon.VERBS if verb in lexicon.OPPOSITES)


def opinion(chance: Chance, part: str, positive: bool) -> Words:
    """Three words of praise and blame, two of them of one mind."""
    two, one = (lexicon.POSITIVE, lexicon.NEGATIVE) if positive else (lexicon.NEGATIVE, lexicon.POSITIVE)

    def draw() -> list[str]:
        return chance.distinct([*chance.distinct(two, 2), chance.pick(one)], 3)

    a, b, c = chance.until(draw, lambda words: part_of(" ".join(sorted(words))) == part)
    thing = chance.pick(lexicon.THINGS)
    frames = (
        ["the", thing, "is", a, ",", b, "and", c, "."],
        ["the", a, thing, "is", b, "and", c, "."],
        [a, "and", b, ",", "the", thing, "is", c, "."],
        ["a", a, thing, ",", b, "but", c, "."],
    )
    return chance.pick(frames)


def sst2(chance: Chance, part: str) -> Item:
    positive = chance.coin()
    return item("1" if positive else "0", opinion(chance, part, positive))


def qqp(chance: Chance, part: str) -> Item:
    """The same question in synonyms, or one about another noun and another verb."""
    same = chance.coin()
    kept = set(ROLES) if same else {chance.pick(("agent", "patient"))}
    one, other = two_events(chance, part, kept, lexicon.PEOPLE, lexicon.VERBS)
    ask = grammar.whether if chance.coin() else grammar.whether_passive
    return item("1" if same else "0", ask(bare(*one)), ask(synonymous(chance, bare(*other))))


def stsb(chance: Chance, part: str) -> Item:
    """0 to 3 of agent, verb and patient are kept; each is worth 5/3."""
    kept = chance.below(4)
    one, other = two_events(chance, part, set(chance.distinct(ROLES, kept)), lexicon.PEOPLE, lexicon.VERBS)
    return item(f"{5 * kept / 3:.3f}", grammar.active(bare(*one)), grammar.active(bare(*other)))


def mnli(chance: Chance, part: str, nouns: tuple[str, ...] = lexicon.ANIMALS) -> Item:
    """Entailment: synonyms. Neutral: another noun, now and then exchanged roles. Contradiction: the opposite, or `not`.

    `not` is as frequent in either sentence under every label.
    """
    label = chance.pick(("entailment", "neutral", "contradiction"))
    exchanged = label == "neutral" and chance.coin(0.1)
    kept = {"verb", chance.pick(("agent", "patient"))} if label == "neutral" and not exchanged else set(ROLES)
    one, two = (bare(*words) for words in two_events(chance, part, kept, nouns, OPPOSABLE))
    negated = other_negated = chance.coin(0.25)
    if label == "contradiction" and chance.coin():
        negated = other_negated = False
        two = two.with_verb(chance.pick(lexicon.OPPOSITES[two.verb]))
    elif label == "contradiction":
        negated = chance.coin()
        other_negated = not negated
    two = synonymous(chance, two.exchanged() if exchanged else two)
    return item(label, grammar.active(one, negated=negated), grammar.active(two, negated=other_negated))


def synonymous(chance: Chance, event: Event) -> Event:
    return event.with_verb(lexicon.SYNONYM.get(event.verb, event.verb)) if chance.coin() else event


def mnli_mismatched(chance: Chance, part: str) -> Item:
    """The same with nouns of the other domain, never seen in this task's train file."""
    return mnli(chance, part, lexicon.WORKERS)


def weakened(event: Event) -> Event:
    """The same event, told with less: no adjectives, and the agent by its kind."""
    agent = replace(event.agent, noun=lexicon.HYPERNYM[event.agent.noun], adjective="")
    return Event(agent, event.verb, replace(event.patient, adjective=""))
