"""Names of checkpoints: a folder, or an id of the hub that was fetched before."""

from pathlib import Path

import pytest

import relpos
from hosts import host, saved
from relpos.config.compose import compose
from relpos.pretrained.files import is_remote
from relpos.runs.plan import plan

hub = pytest.importorskip("huggingface_hub", reason="needs relpos[pretrained]")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a checkpoint that lies in the hub's cache, as it would after it was fetched; there
    is no network."""
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "cache" / "models--somebody--bert"
    saved(host("BertModel"), place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    return "somebody/bert"


@pytest.mark.parametrize("revision", ["", f"@{COMMIT}"])
def test_a_fetched_checkpoint_opens_without_network_also_by_its_revision(cached, revision):
    assert type(relpos.load(cached + revision)[0]).__name__ == "Encoder"


def test_a_run_on_a_checkpoint_of_the_hub_is_identified_by_id_and_commit(cached):
    run = plan(compose("finetune", ["task=rte", "intermediate=none", f"network={cached}"]))
    assert run.inputs["start"].meaning == {"hub": cached, "revision": COMMIT}


@pytest.mark.parametrize(
    "name", ["bert-base-uncased", "albert/albert-base-v2", "google/electra_small@main", "a.b/c.d"]
)
def test_names_may_be_hub_ids(name):
    assert is_remote(name)


@pytest.mark.parametrize(
    "name", ["./model", "/data/model", "~/model", "a/b/c", "..", "", "runs/", "a b"]
)
def test_other_names_are_folders(name):
    assert not is_remote(name)
