"""The claims of both papers as data, and the command that prints them."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from claims.made_up import around, glue, scale, scales
from relpos.claims import claim as files
from relpos.claims.contrasts import Contrasts
from relpos.commands.claims import page
from relpos.config.compose import called, compose
from relpos.errors import RelposError
from relpos.results.scale import Scale, scheme
from relpos.tables.experiment import experiments, load, overrides_of

near = partial(around, spread=0.001)
OF_PAPERS = [*(f"C{n:02}" for n in range(1, 26)), *(f"W{n:02}" for n in range(1, 23))]
IDS = [claim.id for claim in files.load("all") if not claim.measure]


def test_all_claims_are_there():
    """The papers' 47, and those across them, of which there may be more."""
    papers = ("chang2021", "wennberg2021", "across")
    chang, wennberg, across = (
        [claim.id for claim in files.load(paper) if not claim.measure] for paper in papers
    )
    assert chang + wennberg == OF_PAPERS
    assert len(across) >= 2
    assert across == sorted(set(across))
    assert {name[0] for name in across} == {"X"}
    assert [*chang, *wennberg, *across] == IDS


@pytest.mark.parametrize("name", IDS)
def test_each_claim_has_a_judgement_of_known_rows_or_says_what_would_test_it(name):
    claim = of_id(name)
    assert claim.says
    assert claim.source
    if claim.judgement is None:
        assert "would be tested by" in claim.not_tested.lower() or "takes" in claim.not_tested
    else:
        assert claim.judgement.says
        assert set(claim.judgement.rows) <= set(files.rows())


def of_id(name: str) -> files.Claim:
    return next(claim for claim in files.load("all") if claim.id == name)


def verdicts(name: str, *scores: Scale) -> tuple[list[str], str]:
    """The verdict of each scale on a claim, and the headline of a page of this claim alone."""
    (claim,) = page([of_id(name)], scales(*scores)).claims
    return [finding.verdict for finding in claim.findings], claim.head.verdict


def test_the_headline_is_the_verdict_of_the_largest_scale_that_was_run():
    assert verdicts("C01") == ([], "not run")
    assert verdicts("C06") == ([], "not tested")
    clear = {"dynamic": glue(64.0), "fixed": glue(60.0, -1)}
    unclear = {"dynamic": glue(60.1), "fixed": glue(60.0, -1)}
    assert verdicts("C03", scale(clear), scale(unclear, size=4)) == (
        ["holds", "undecided"],
        "undecided",
    )


def test_contrasts_have_variants_with_the_bounds_that_stood_before_the_runs():
    bounds = {"loss": 0.02, "order": 0.05}
    variants = [claim for claim in files.load("all") if claim.measure]
    assert len(variants) == 44
    for claim in variants:
        judgement, bound = claim.judgement, bounds[str(claim.measure)]
        assert isinstance(judgement, Contrasts)
        assert {abs(at) for at in (judgement.above, judgement.below) if at is not None} == {bound}


COMPARE_ROWS = ["C01", "C02", "C03", "C04", "C05", "C13", "C15", "C17", "C18", "C19", "C21", "W15"]


@pytest.mark.parametrize("name", COMPARE_ROWS)
def test_every_claim_that_compares_rows_can_be_decided_in_nats(name):
    judgement = of_id(name).judgement
    assert isinstance(judgement, Contrasts)
    rows = {row: {"loss": near(0.0), "order": near(1.0)} for row in judgement.rows}
    if "none" in rows:  # of losses, less is worse: none is on the plateau
        rows["none"]["loss"] = near(-5.0)
    first = judgement.contrasts[0].first
    for measure in ("loss", "order"):
        rows[first][measure] = near(5.0)
        assert of_id(f"{name}/{measure}").verdicts(scales(scale(rows)))[0].verdict in (
            "holds",
            "fails",
        )


@pytest.mark.parametrize(
    ("name", "gain", "expected"),
    [
        ("C03/loss", 0.1, "holds"),
        ("C03/loss", 0.005, "fails"),
        ("C03/order", 0.1, "holds"),
        ("C03/order", 0.04, "fails"),
    ],
)
def test_a_variant_compares_the_rows_in_nats(name, gain, expected):
    measure = name.partition("/")[2]
    scores = scale({"dynamic": {measure: near(1 + gain)}, "fixed": {measure: near(1.0, -1)}})
    assert verdicts(name, scores) == ([expected], expected)
    assert verdicts("C03", scores) == ([], "not run")


def test_rows_are_overrides_that_compose():
    rows = files.rows()
    composed = [compose("pretrain", overrides) for overrides in rows.values()]
    expected = [
        {key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("position", "conv")}
        for cfg in composed
    ]
    assert [scheme(overrides) for overrides in rows.values()] == [
        json.dumps(nodes, sort_keys=True) for nodes in expected
    ]
    assert len(set(map(str, expected))) == len(rows)  # no two are the same model


def test_tables_name_claims_that_exist():
    assert {claim for file in experiments() for claim in file.claims} <= set(IDS)
    (claim,) = page([of_id("C20")], scales(), experiments()).claims
    assert claim.tables[:2] == ["conv_heads", "order_real"]


def test_what_a_claim_says_to_run_makes_its_rows_and_pre_trainings_enough_for_a_verdict():
    schemes = {name: scheme(overrides) for name, overrides in files.rows().items()}
    for claim in files.load("all"):
        keys = dict(
            word.strip("'").partition("=")[::2] for word in claim.run.partition(";")[0].split()
        )
        if not keys:
            continue
        file = load(keys["table"])
        names = keys["rows"][1:-1].split(",") if "rows" in keys else list(file.rows)
        assert set(names) <= set(file.rows), claim.id
        if not file.network:
            rows = {scheme(overrides_of("pretrain", file, file.rows[name])) for name in names}
            needed = claim.judgement.rows if claim.judgement else ()
            assert {schemes[row] for row in needed} <= rows, claim.id
            assert len(file.pretrain_seeds or ()) > 1 or keys["pretrain_seeds"] == "2", claim.id


def test_every_claim_that_runs_can_decide_says_a_command_as_do_its_variants():
    silent = {claim.id for claim in files.load("all") if claim.judgement and not claim.run}
    no_runs = {"C11", "C22", "C23", "C24", "W17", "W22", "X01"}
    in_nats = {"X03", "X04", "X05", "X06", "X07", "X08", "X09"}  # no table fine-tunes their rows
    assert silent == no_runs | in_nats


def test_the_command_prints_the_claims_and_writes_their_verdicts(tmp_path, capsys):
    path = Path(called("claims", ["paper=chang2021", "ids=[C01,C11,C22]"]))
    stdout = capsys.readouterr().out
    assert "C01  not run  fixed, dynamic and composite each beat absolute positions" in stdout
    assert "composite: position=composite" in stdout
    assert "no finished runs of these rows at any scale" in stdout
    assert "to run it relpos reproduce table=" in stdout
    assert "3 claims: 2 holds, 1 not run" in stdout
    assert "0 tests were made" in stdout
    written = {
        claim["claim"]["id"]: claim["verdict"]
        for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]
    }
    assert written == dict.fromkeys(["C01", "C01/loss", "C01/order"], "not run") | {
        "C11": "holds",
        "C22": "holds",
    }
    assert path.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["paper=chang2012"], "paper=chang2012: unknown. Did you mean 'chang2021'"),
        (["ids=[C99]"], "ids: unknown claim 'C99'"),
    ],
)
def test_a_mistake_in_a_claim_is_one_line(overrides, message):
    with pytest.raises(RelposError) as caught:
        called("claims", overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"rule": "contrats"}, "unknown rule 'contrats'. Did you mean 'contrast'"),
        ({"rule": "os.system"}, "unknown rule 'os.system'"),
        ({"rule": "contrast", "bellow": 1}, "unknown key 'bellow'. Did you mean 'below'"),
        ({"rule": "contrast", "contrasts": []}, "needs above or below"),
        (
            {"rule": "contrast", "contrasts": [], "above": 0, "over": "row"},
            "over: unknown 'row'. Did you mean 'rows'",
        ),
        (
            {"rule": "share", "row": "fixed", "of": "kernel"},
            "of: unknown 'kernel'. Did you mean 'kernels'",
        ),
        ({"rule": "share", "row": "fixed", "of": "table"}, "of: unknown 'table'"),
        ({"rule": "parameters", "few": []}, "many: Field required"),
    ],
)
def test_a_wrong_rule_or_argument_is_named_with_the_claim(test, message):
    with pytest.raises(RelposError) as caught:
        _ = files.Claim("C99", "", "", test=test).judgement
    assert str(caught.value).startswith("claim C99: test: ")
    assert message in str(caught.value)


MINE = """
M01:
  says: a wide kernel beats a narrow one
  source: Table 1
  test: {rule: contrast, above: 0, contrasts: [[wide, narrow]]}
  variants: {loss: 0.02}
"""


def test_a_claim_of_one_s_own_is_an_entry_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_folder", lambda: tmp_path)
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    claim, in_loss = files.load("mine")
    runs = scales(scale({"wide": glue(64.0), "narrow": glue(60.0, -1)}))
    assert [verdict.verdict for verdict in claim.verdicts(runs)] == ["holds"]
    assert (in_loss.id, in_loss.verdicts(runs)) == ("M01/loss", [])


@pytest.mark.parametrize(
    "text", ["{says: a, source: b}", "{says: a, source: b, test: {rule: contrast}, not_tested: c}"]
)
def test_a_claim_is_judged_or_says_why_not(text, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_folder", lambda: tmp_path)
    (tmp_path / "mine.yaml").write_text(f"M01: {text}", encoding="utf-8")
    with pytest.raises(
        RelposError, match="claim M01: needs test, or not_tested: why, and what would test it"
    ):
        files.load("mine")


def test_a_claim_across_papers_has_the_headline_of_another_protocol_where_it_was_run_at_this_alone():
    first, second = {"loss": near(1.1)}, {"loss": near(1.0, -1)}
    rows = {"canon_left": first, "rope": second, "dynamic": first, "fixed": second}
    decoders = replace(scale(rows), is_of_paper=False)
    assert verdicts("X09/loss", decoders) == (["holds"], "holds")
    assert verdicts("C03/loss", decoders) == (["holds"], "not run")
