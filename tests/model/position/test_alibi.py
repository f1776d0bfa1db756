"""ALiBi's slopes and sides: facts beyond the general laws."""

from dataclasses import replace

import pytest
import torch

from reference_offsets import alibi, slope
from relpos.config.compose import compose
from relpos.model.position import Alibi
from relpos.model.position.alibi import slopes
from relpos.model.position.base import HIDDEN
from relpos.runs.plan import plan
from schemes import SHAPE


def test_four_heads_have_every_second_power() -> None:
    assert slopes(4) == [2**-2, 2**-4, 2**-6, 2**-8]


def test_twelve_heads_are_eight_and_every_other_of_sixteen() -> None:
    expected = [2.0**-m for m in range(1, 9)] + [0.70711, 0.35355, 0.17678, 0.08839]
    assert slopes(12) == pytest.approx(expected, abs=1e-5)


def test_any_number_of_heads_has_slopes_of_its_own() -> None:
    for heads in range(1, 40):
        found = slopes(heads)
        assert found == pytest.approx([slope(head, heads) for head in range(heads)])
        assert len(set(found)) == heads
        assert all(0 < m < 1 for m in found)


def test_both_sides_count_alike() -> None:
    offset = Alibi(replace(SHAPE, heads=12)).prepare(9)
    assert torch.equal(offset, offset.flip(1))
    assert offset[0].tolist() == [-abs(o) / 2 for o in range(-8, 9)]


@pytest.mark.parametrize("sides", ["half", "shift"])
@pytest.mark.parametrize("heads", [1, 2, 3, 12])
def test_the_other_forms_equal_the_loops(sides: str, heads: int) -> None:
    scheme = Alibi(replace(SHAPE, heads=heads), sides=sides)  # type: ignore[arg-type]
    found = scheme.prepare(6)
    found = found.masked_fill(found <= HIDDEN, -torch.inf)
    expected = [[alibi(scheme, 0, head, 5, 5 + o, None, None) for o in range(-5, 6)] for head in range(heads)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_the_default_form_leaves_identities_as_they_were() -> None:
    assert "sides" not in plan(compose("pretrain", ["position=alibi"])).meaning["position"]
