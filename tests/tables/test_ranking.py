"""Whether the order of the rows at a share of the steps foretells the last one."""

import pytest

from relpos.tables.ranking import agreements
from tables.snapshots import rows


def test_the_order_of_rows_is_compared_with_the_last_one() -> None:
    same = rows(a=(5.0, 3.0), b=(5.1, 3.1), c=(5.2, 3.2), d=(5.3, 3.3), e=(5.4, 3.4))
    turned = rows(a=(5.0, 3.4), b=(5.1, 3.3), c=(5.2, 3.2), d=(5.3, 3.1), e=(5.4, 3.0))
    assert agreements(same, "loss")[10].rho == pytest.approx(1.0)
    found = agreements(turned, "loss")[10]
    assert (found.rho, found.rows) == (pytest.approx(-1.0), 5)
    assert found.low <= found.rho <= found.high
    assert agreements(same[:3], "loss") == {}  # too few rows
