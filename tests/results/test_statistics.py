"""Intervals, tests and power against the formulas, written out."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from relpos.results.statistics import (
    benjamini_hochberg,
    clustered,
    combined,
    holm,
    paired,
    standard_error,
)

VALUES = [30.0, 32.0, 37.0, 31.0, 33.0, 34.0, 29.0, 35.0, 33.5, 30.5]


def test_differences_of_other_seeds_by_hand():
    other = [31.0, 30.0, 33.0]
    difference = combined([(1.0, paired(VALUES)), (-1.0, paired(other))])
    own, theirs = np.var(VALUES, ddof=1) / 10, np.var(other, ddof=1) / 3
    freedom = (own + theirs) ** 2 / (own**2 / 9 + theirs**2 / 2)
    assert difference.value == pytest.approx(np.mean(VALUES) - np.mean(other))
    assert difference.p == pytest.approx(stats.ttest_ind(VALUES, other, equal_var=False).pvalue)
    assert difference.high - difference.value == pytest.approx(
        stats.t.ppf(0.975, freedom) * sqrt(own + theirs)
    )


def test_paired_by_hand():
    other = [value - 1 - place / 10 for place, value in enumerate(VALUES)]
    difference = paired(np.subtract(VALUES, other))
    differences = 1 + np.arange(10) / 10
    error = differences.std(ddof=1) / sqrt(10)
    assert difference.value == pytest.approx(1.45)
    assert difference.low == pytest.approx(1.45 - stats.t.ppf(0.975, 9) * error)
    assert difference.p == pytest.approx(2 * stats.t.sf(1.45 / error, 9))
    unpaired = combined([(1.0, paired(VALUES)), (-1.0, paired(other))])
    assert unpaired.p > difference.p  # what the seeds share is gone


def test_pairs_without_spread():
    same, shifted = paired([0.0, 0.0]), paired([0.5, 0.5])
    assert (same.p, same.low, same.high) == (1.0, 0.0, 0.0)
    assert (shifted.p, shifted.low, shifted.high) == (0.0, 0.5, 0.5)
    assert paired([-1.0]) is None


def test_a_family_without_tests_needs_no_correction():
    assert holm([]) == benjamini_hochberg([]) == []


def test_a_correlation_has_the_error_of_a_correlation():
    chance = np.random.default_rng(0)
    x, noise = chance.normal(size=(2, 500, 1500))
    y = 0.8 * x + 0.6 * noise
    correlations = [
        100 * np.corrcoef(first, second)[0, 1] for first, second in zip(x, y, strict=True)
    ]
    assert standard_error(80.0, 1500, "pearson_and_spearman") == pytest.approx(
        np.std(correlations), rel=0.1
    )
    assert standard_error(0.0, 400, "pearson_and_spearman") == 5.0


def test_examples_of_one_document_are_not_independent():
    chance = np.random.default_rng(0)
    sizes = chance.integers(5, 25, 40).astype(float)
    nats = chance.normal(0.1, 1.0, 40) * sizes
    alone = clustered(nats, sizes)
    twice = np.repeat(nats, 2), np.repeat(sizes, 2)
    by_document = clustered(*twice, clusters=list(np.repeat(np.arange(40.0), 2)))
    assert (by_document.value, by_document.error, by_document.n) == (
        pytest.approx(alone.value),
        pytest.approx(alone.error),
        40,
    )
    assert clustered(*twice).error == pytest.approx(alone.error / sqrt(2), rel=0.02)


def test_the_error_over_documents_is_that_of_drawing_documents():
    chance = np.random.default_rng(1)
    documents = np.repeat(np.arange(60.0), chance.integers(1, 9, 60))
    sizes = chance.integers(5, 25, len(documents)).astype(float)
    nats = (
        0.2
        + 0.5 * chance.normal(size=60)[documents.astype(int)]
        + chance.normal(size=len(documents))
    ) * sizes
    y, m = (np.bincount(documents.astype(int), weights) for weights in (nats, sizes))
    drawn = [y[sample].sum() / m[sample].sum() for sample in chance.integers(60, size=(4000, 60))]
    estimate = clustered(nats, sizes, list(documents))
    assert estimate.value == pytest.approx(nats.sum() / sizes.sum())
    assert estimate.error == pytest.approx(np.std(drawn), rel=0.08)
    assert estimate.error > 1.3 * clustered(nats, sizes).error
