"""ALiBi's slopes and sides: facts beyond the general laws."""

import pytest

from reference_offsets import slope
from relpos.config.compose import compose
from relpos.model.position.alibi import slopes
from relpos.runs.plan import plan


def test_four_heads_have_every_second_power():
    assert slopes(4) == [2**-2, 2**-4, 2**-6, 2**-8]


def test_twelve_heads_are_eight_and_every_other_of_sixteen():
    expected = [2.0**-m for m in range(1, 9)] + [0.70711, 0.35355, 0.17678, 0.08839]
    assert slopes(12) == pytest.approx(expected, abs=1e-5)


def test_any_number_of_heads_has_slopes_of_its_own():
    for heads in range(1, 40):
        values = slopes(heads)
        assert values == pytest.approx([slope(head, heads) for head in range(heads)])
        assert len(set(values)) == heads
        assert all(0 < m < 1 for m in values)


def test_the_default_form_leaves_identities_as_they_were():
    assert "sides" not in plan(compose("pretrain", ["position=alibi"])).meaning["position"]
