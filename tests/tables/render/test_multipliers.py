"""Tables in which `recipe.position_lr` is swept, and tables that use what was chosen there."""

from relpos.tables.render.cells import by_multiplier, sweeps
from relpos.tables.render.view import view_of
from relpos.tables.table import Row, Table

LOSSES = {1.0: 4.9, 3.0: 4.7, 10.0: 4.8}


def swept(scheme: str, by: float = 0.0) -> list[Row]:
    rows = []
    for multiplier, loss in LOSSES.items():
        overrides = [f"position={scheme}"]
        if multiplier > 1:
            overrides += [f"recipe.position_lr={multiplier:g}"]
        curve = [(10, 9.0), (20, loss + by)]
        name = f"{scheme}_{multiplier:g}"
        rows += [Row(name, overrides, position_lr=multiplier, heldout_loss=curve)]
    return rows


def test_rows_that_differ_in_the_multiplier_are_one_line_of_losses():
    table = by_multiplier(
        [
            *swept("fixed"),
            *swept("dynamic", 0.1)[:2],
            Row("none", ["position=none"], heldout_loss=[(20, 6.0)]),
        ]
    )
    assert table.heads == ["1", "3", "10"]
    assert table.lines == [
        ("position=fixed", ["4.900", "4.700", "4.800"]),
        ("position=dynamic", ["5.000", "4.800", "—"]),
    ]
    assert by_multiplier(swept("fixed")[:1]) is None


def with_rates(loss: float, position_lr: float | None = None, conv_lr: float | None = None) -> Row:
    rates = {"position_lr": position_lr, "conv_lr": conv_lr}
    overrides = ["q", *(f"recipe.{key}={rate:g}" for key, rate in rates.items() if rate)]
    return Row(
        str(loss),
        overrides,
        position_lr=position_lr or 1.0,
        conv_lr=conv_lr,
        heldout_loss=[(20, loss)],
    )


def test_where_the_convolution_has_the_rate_of_the_positions_this_is_a_point_of_its_sweep():
    rows = [with_rates(5.0, 30.0), with_rates(4.5, 30.0, 3.0), with_rates(4.0, 30.0, 10.0)]
    assert sweeps(rows) == {"q recipe.position_lr=30": {30.0: 5.0, 3.0: 4.5, 10.0: 4.0}}


def test_rows_swept_in_either_multiplier_are_two_sweeps():
    rows = [with_rates(5.0), with_rates(4.5, position_lr=3.0), with_rates(4.0, conv_lr=3.0)]
    assert sweeps(rows) == {
        "q position_lr": {1.0: 5.0, 3.0: 4.5},
        "q conv_lr": {1.0: 5.0, 3.0: 4.0},
    }


def test_a_table_says_where_its_multipliers_were_chosen():
    rows = [
        Row("none"),
        Row("fixed", position_lr=10.0),
        Row("composite", position_lr=10.0),
        Row("absolute", position_lr=3.0),
    ]
    view = view_of(Table("t", "?", rows, tuned="sweep"))
    assert view.notes == ["position_lr was chosen in table sweep."]
    (rates,) = view.side_tables
    assert rates.texts == [
        ["rates", "position_lr"],
        ["none", "1"],
        ["fixed", "10"],
        ["composite", "10"],
        ["absolute", "3"],
    ]
    assert view_of(Table("t", "?", rows)).notes == []
    assert view_of(Table("t", "?", [Row("none")], tuned="sweep")).notes == []
