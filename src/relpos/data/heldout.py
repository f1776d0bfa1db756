"""Which part of a text is held out: a share of its tokens, by a draw that depends on the content
alone.

A document that is larger than the whole held-out part gives its end. The others are taken whole, in
the order of their hashes, until there is enough; the last one gives only its end if all of it would
be too much. The hash is that of the content, so copies of a document are held out together or not
at all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from relpos.errors import RelposError, plural

FEWEST = 2
"""Sentences on either side of a cut: with one, a side would have no pair."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]


def ends(
    hashes: Hashes,
    documents: Ints,
    sentences: Ints,
    share: float,
    alike: bool = False,
) -> Ints:
    """(documents,) how many sentences at the end of each document are held out: in all at least
    one, and never all.

    Args:
        hashes: (documents,) of the content.
        documents: (documents + 1,) where each begins, in sentences.
        sentences: (sentences + 1,) where each begins, in tokens.
        share: of the tokens.
        alike: the documents are of one size, as generated ones are: whole ones, of which each is as
            probable as any.

    Raises:
        RelposError: the only document has too few sentences to be cut.
    """
    counts = np.diff(documents)
    sizes = np.diff(sentences[documents])
    if len(counts) == 1 and counts[0] < 2 * FEWEST:
        raise RelposError(
            f"data: the corpus has {plural(int(counts[0]), 'sentence')} in one "
            f"document, too few to hold some out"
        )
    if alike and len(counts) > 1:
        return np.where(chosen(hashes, share), counts, 0)
    if alike:
        return np.clip(np.round(share * counts).astype(np.int64), FEWEST, counts - FEWEST)
    held = np.zeros_like(counts)

    def end(document: int, tokens: float) -> int:
        """Sentences at its end that have about so many tokens."""
        first, last = documents[document : document + 2]
        return int(
            counts[document]
            - np.abs(sentences[first : last + 1] - (sentences[last] - tokens)).argmin()
        )

    # Where `share` of a document is less than FEWEST sentences, a cut would hold out too much of
    # it.
    large = (sizes > share * sizes.sum()) & (share * counts >= FEWEST) & (counts >= 2 * FEWEST)
    for document in np.flatnonzero(large).tolist():
        held[document] = _within(end(document, share * sizes[document]), int(counts[document]))
    missing = share * sizes[~large].sum()
    # Where no document can be cut, one that is too large is skipped as long as a smaller one may
    # fit.
    smallest = 0 if (counts[~large] >= 2 * FEWEST).any() else sizes[~large].min(initial=missing)
    order = np.flatnonzero(~large)
    order = order[np.argsort(hashes[order], kind="stable")]
    # the documents of each content, in the order of the hashes
    for group in np.split(order, np.flatnonzero(np.diff(hashes[order])) + 1):
        size = sizes[group].sum()
        if held.any() and missing < smallest:
            break
        if size <= missing:
            held[group], missing = counts[group], missing - size
        elif counts[group].min() >= 2 * FEWEST:
            cut = end(int(group[0]), missing / len(group))
            if cut >= FEWEST or not held.any():
                held[group] = [_within(cut, count) for count in counts[group].tolist()]
            break
    if not held.any():  # no document that is small enough, and none that could be cut
        held = np.where(chosen(hashes, share), counts, 0)
    return held


def _within(cut: int, count: int) -> int:
    """The cut, so that both sides have at least FEWEST sentences and the first side an even
    number."""
    trained = count - min(max(FEWEST, cut), count - FEWEST)
    # Even: sentences are paired from a document's beginning, so a cut leaves the pairs as they are.
    return count - trained + trained % 2


def chosen(hashes: Hashes, share: float) -> Bools:
    """(documents,) which documents of one size are held out: those whose hash is below `share` of
    the range. At least one is, that with the lowest hash, and at least one is not, that with the
    highest.

    Copies above a megabyte are recognised only if their line ends are alike: these decide where the
    blocks of a file end."""
    below = hashes < np.uint64(share * 2**64)
    if not below.any():
        below = hashes == hashes.min()
    if below.all():
        below = hashes != hashes.max()
    if not below.any():  # nothing but copies of one document
        below[-1] = True
    return below
