"""The claims of both papers as data, and the command that prints them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from claims.made_up import JITTER, at_chance, glue, scale, scales
from relpos.claims import claim as files
from relpos.claims.verdict import Evidence, sided
from relpos.commands.claims import page
from relpos.config.compose import called, compose
from relpos.errors import RelposError
from relpos.results.scale import Scale, scheme
from relpos.results.statistics import Difference
from relpos.tables.experiment import experiments, load, overrides_of

OF_PAPERS = [*(f"C{n:02}" for n in range(1, 26)), *(f"W{n:02}" for n in range(1, 23))]
IDS = [claim.id for claim in files.load("all") if not claim.measure]


def test_all_claims_are_there() -> None:
    """The papers' 47, and those across them, of which there may be more."""
    chang, wennberg, across = (
        [claim.id for claim in files.load(paper) if not claim.measure] for paper in ("chang2021", "wennberg2021", "across")
    )
    assert chang + wennberg == OF_PAPERS
    assert len(across) >= 2
    assert across == sorted(set(across))
    assert {name[0] for name in across} == {"X"}
    assert [*chang, *wennberg, *across] == IDS


@pytest.mark.parametrize("name", IDS)
def test_each_has_a_test_of_known_rows(name: str) -> None:
    claim = next(one for one in files.load("all") if one.id == name)
    assert claim.says
    assert claim.source
    assert claim.tester.says
    assert set(claim.tester.rows) <= set(files.rows())


def of_id(name: str) -> files.Claim:
    return next(one for one in files.load("all") if one.id == name)


def verdicts(name: str, *made: Scale) -> tuple[list[str], str]:
    """Of a claim on a page of its own: that of each scale, and the headline."""
    (claim,) = page([of_id(name)], scales(*made))["claims"]
    return [finding["verdict"] for finding in claim["findings"]], claim["verdict"]


def test_the_headline_is_the_verdict_of_the_largest_scale_that_was_run() -> None:
    steps = {"absolute_tisa_s1": glue(61.0), "absolute_tisa_s3": glue(63.0), "absolute_tisa": glue(65.0)}
    small = scale(steps | {"absolute": glue(60.0, -1)})
    large = scale({"absolute_tisa": glue(61.0), "absolute": glue(60.0)}, size=4)
    assert verdicts("W11", small, large) == (["fails", "not run"], "fails")
    assert verdicts("W11") == ([], "not run")
    assert verdicts("W04") == (["not run"], "not run")
    clear = {"dynamic": glue(64.0), "fixed": glue(60.0, -1)}
    unclear = {"dynamic": glue(60.1), "fixed": glue(60.0, -1)}
    assert verdicts("C03", scale(clear), scale(unclear, size=4)) == (["holds", "undecided"], "undecided")


def test_a_bound_in_nine_columns_is_not_applied_to_fewer() -> None:
    rows = {"composite_key": glue(60.25), "composite": glue(60.0)}
    fewer = {row: {name: values for name, values in columns.items() if name != "rte"} for row, columns in rows.items()}
    assert verdicts("C05", scale(rows)) == (["holds"], "holds")
    assert verdicts("C05", scale(fewer)) == (["not run"], "not run")
    assert verdicts("C05", at_chance(scale(rows), "rte")) == (["not run"], "not run")


def test_claims_that_compare_rows_have_variants_and_claims_over_columns_have_none() -> None:
    with_variants = {claim.id.partition("/")[0] for claim in files.load("all") if claim.measure}
    compared = {claim.id for claim in files.load("all") if not claim.measure and claim.tester.rule.variant}
    assert with_variants == compared - {"C07", "C14", "W09", "W13", "W14", "X10"}
    assert {claim.variants[claim.measure] for claim in files.load("all") if claim.measure == "loss"} == {0.02}
    assert {claim.variants[claim.measure] for claim in files.load("all") if claim.measure == "order"} == {0.05}


COMPARE_ROWS = ["C01", "C02", "C03", "C04", "C05", "C13", "C15", "C17", "C18", "C19", "C21", "W15"]


@pytest.mark.parametrize("name", COMPARE_ROWS)
def test_every_claim_that_compares_rows_can_be_decided_in_nats(name: str) -> None:
    near = {
        base: [base + by / 1000 for by in JITTER] for base in (-5.0, 0.0, 1.0)
    }  # of losses, less is worse: none is on the plateau
    rows = {row: {"loss": near[-5.0 if row == "none" else 0.0], "order": near[1.0]} for row in of_id(name).tester.rows}
    first = of_id(name).tester.contrasts[0].first
    for measure in ("loss", "order"):
        rows[first][measure] = [5.0 + by / 1000 for by in JITTER]
        assert of_id(f"{name}/{measure}").tester.verdicts(scales(scale(rows)))[0].verdict in ("holds", "fails")


@pytest.mark.parametrize(
    ("name", "gain", "expected"),
    [("C03/loss", 0.1, "holds"), ("C03/loss", 0.005, "fails"), ("C03/order", 0.1, "holds"), ("C03/order", 0.04, "fails")],
)
def test_a_variant_compares_the_rows_in_nats(name: str, gain: float, expected: str) -> None:
    measure = name.partition("/")[2]
    values = {"dynamic": [1 + gain + jitter / 1000 for jitter in JITTER], "fixed": [1 + jitter / 1000 for jitter in JITTER[::-1]]}
    made = scale({row: {measure: of_row} for row, of_row in values.items()})
    assert verdicts(name, made) == ([expected], expected)
    assert verdicts("C03", made) == ([], "not run")


def test_the_page_says_how_many_tests_it_made() -> None:
    made = scale({"dynamic": glue(64.0), "fixed": glue(60.0, -1)})
    assert page([of_id(name) for name in ("C03", "C11")], scales(made))["tests"] == 1


def test_rows_are_overrides_that_compose() -> None:
    rows = files.rows()
    composed = [compose("pretrain", overrides) for overrides in rows.values()]
    expected = [{key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("position", "conv")} for cfg in composed]
    assert [scheme(overrides) for overrides in rows.values()] == [json.dumps(each, sort_keys=True) for each in expected]
    assert len(set(map(str, expected))) == len(rows)  # no two are the same model


def test_tables_name_claims_that_exist() -> None:
    assert {claim for file in experiments() for claim in file.claims} <= set(IDS)
    (claim,) = page([of_id("C20")], scales(), experiments())["claims"]
    assert claim["tables"][:2] == ["conv_heads", "order_real"]


def test_what_a_claim_says_to_run_makes_its_rows_and_pre_trainings_enough_for_a_verdict() -> None:
    made = {name: scheme(overrides) for name, overrides in files.rows().items()}
    for claim in files.load("all"):
        given = dict(each.strip("'").partition("=")[::2] for each in claim.run.partition(";")[0].split())
        if not given:
            continue
        file = load(given["table"])
        names = given["rows"][1:-1].split(",") if "rows" in given else list(file.rows)
        assert set(names) <= set(file.rows), claim.id
        if not file.network:
            rows = {scheme(overrides_of("pretrain", file, file.rows[name])) for name in names}
            assert {made[row] for row in claim.tester.rows} - rows <= {made[row] for row in claim.tester.others}, claim.id
            assert len(file.pretrain_seeds or ()) > 1 or given["pretrain_seeds"] == "2", claim.id


def test_every_claim_that_runs_can_decide_says_a_command_as_do_its_variants() -> None:
    silent = {claim.id for claim in files.load("all") if not claim.run}
    no_runs = {"C11", "C22", "C23", "C24", "W04", "W17", "W22", "X01", "C25"}  # the last says itself what it needs
    in_nats = {"X03", "X04", "X05", "X06", "X07", "X08", "X09"}  # decided in loss and gap: no table fine-tunes their rows
    assert silent == no_runs | in_nats


def test_the_page_says_the_command_of_claims_that_are_not_run_and_of_no_others() -> None:
    said = page([of_id("C03"), of_id("C11")], scales())["claims"]
    assert [bool(claim["takes"]) for claim in said] == [True, False]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(called("claims", ["paper=chang2021", "ids=[C01,C11,C22]"]))
    said = capsys.readouterr().out
    assert "C01  not run  fixed, dynamic and composite each beat absolute positions" in said
    assert "composite: position=composite" in said
    assert "no finished runs of these rows at any scale" in said
    assert "to run it relpos reproduce table=" in said
    assert "3 claims: 2 holds, 1 not run" in said
    assert "0 tests were made" in said
    written = {claim["id"]: claim["verdict"] for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]}
    assert written == dict.fromkeys(["C01", "C01/loss", "C01/order"], "not run") | {"C11": "holds", "C22": "holds"}
    assert path.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["paper=chang2012"], "paper=chang2012: unknown. Did you mean 'chang2021'"),
        (["ids=[C99]"], "ids: unknown claim 'C99'"),
    ],
)
def test_a_mistake_in_a_claim_is_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(RelposError) as caught:
        called("claims", overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"rule": "comparisons.highr"}, "unknown rule 'comparisons.highr'. Did you mean 'comparisons.higher'"),
        ({"rule": "os.system"}, "unknown rule 'os.system'"),
        ({"rule": "comparisons.replace"}, "unknown rule 'comparisons.replace'"),
        ({"rule": "comparisons.higher", "bond": 1}, "unknown argument 'bond'"),
        ({"rule": "columns.above_published", "row": "tisa"}, "'checkpoint' is missing"),
    ],
)
def test_a_wrong_rule_or_argument_is_named_with_the_claim(test: dict[str, object], message: str) -> None:
    with pytest.raises(RelposError) as caught:
        _ = files.Claim("C99", "", "", "", test).tester
    assert str(caught.value).startswith("claim C99: test: ")
    assert message in str(caught.value)


MINE = """
M01:
  says: a wide kernel beats a narrow one
  source: Table 1
  test: {rule: comparisons.higher, contrasts: [[wide, narrow]]}
  variants: {loss: 0.02}
"""


def test_a_claim_of_one_s_own_is_an_entry_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_folder", lambda: tmp_path)
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    claim, in_loss = files.load("mine")
    made = scales(scale({"wide": glue(64.0), "narrow": glue(60.0, -1)}))
    assert [verdict.verdict for verdict in claim.verdicts(made)] == ["holds"]
    assert (in_loss.id, in_loss.verdicts(made)) == ("M01/loss", [])


def test_a_rule_of_one_s_own_is_a_judge_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    from relpos.claims import comparisons

    @comparisons.comparison("each difference above {least}: {contrasts}")
    def far_higher(tested: Difference, *, least: float) -> Evidence:
        return sided(replace(tested, value=tested.value - least))

    monkeypatch.setattr(comparisons, "far_higher", far_higher, raising=False)
    claim = files.Claim("M01", "", "", "", {"rule": "comparisons.far_higher", "contrasts": [["wide", "narrow"]], "least": 3.0})
    assert claim.tester.says == "each difference above 3.0: wide − narrow"
    made = scales(scale({"wide": glue(64.0), "narrow": glue(60.0, -1)}))
    assert [verdict.verdict for verdict in claim.verdicts(made)] == ["holds"]


def test_a_claim_across_papers_has_the_headline_of_another_protocol_where_it_was_run_at_this_alone() -> None:
    of_row = {"canon_left": (1.1, 1), "rope": (1.0, -1), "dynamic": (1.1, 1), "fixed": (1.0, -1)}
    rows = {row: {"loss": [mean + by / 1000 for by in JITTER[::order]]} for row, (mean, order) in of_row.items()}
    decoders = replace(scale(rows), is_of_paper=False)
    assert verdicts("X09/loss", decoders) == (["holds"], "holds")
    assert verdicts("C03/loss", decoders) == (["holds"], "not run")
