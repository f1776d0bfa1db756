"""Text data sets in the hub's layout, from local folders by the same call that reaches the hub."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relpos.data.source import Hub
from relpos.errors import RelposError

NOVEL = [f"It was on day {i} of the journey that we first saw the mountains ." for i in range(1000)]
FILE = "train-00000-of-00001.parquet"
ROWS = {
    "twice": NOVEL + NOVEL,
    "book": [f"sentence number {i} ." for i in range(25)],
    "numbers": [0, 1],
    "wiki": ["", " = One = \n", "", " First . \n", "", " = Two = \n", "", " Second . \n"],
}


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data set with a configuration for each of ROWS, as the hub keeps it."""
    folder, head = tmp_path / "texts", "---\nconfigs:\n"
    for name, rows in ROWS.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({"text": rows}), folder / name / FILE)
        head += (
            f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train-*\n"
        )
    (folder / "README.md").write_text(f"{head}---\n")
    return folder


def read(place: Path, config: str, streaming: bool = False, **keys: object) -> list[list[str]]:
    texts = [{"id": str(place), "config": config, **keys}]
    documents = Hub(texts=texts, lines=10, streaming=streaming).documents()
    return [[line.strip() for line in document.lines if line.strip()] for document in documents]


@pytest.mark.parametrize("streaming", [False, True])
def test_rows_make_documents_of_so_many_lines(place, streaming):
    documents = read(place, "book", streaming)
    assert [len(document) for document in documents] == [10, 10, 5]
    assert [line for document in documents for line in document] == ROWS["book"]


def test_titles_make_documents(place):
    assert read(place, "wiki") == [["First ."], ["Second ."]]


def test_the_second_copy_of_a_book_is_left_out_on_request(place):
    assert sum(map(len, read(place, "twice"))) == 2000
    assert [line for document in read(place, "twice", unique=True) for line in document] == NOVEL


def test_unique_is_true_or_false(place):
    with pytest.raises(RelposError, match=r"data\.texts\.unique=1: true or false"):
        read(place, "twice", unique=1)


def test_a_missing_column_is_named(place):
    with pytest.raises(RelposError, match=r"no column 'txt'.*'text'"):
        read(place, "book", text="txt")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_column_that_is_not_text_is_named(place, streaming):
    with pytest.raises(
        RelposError, match=r"data\.texts: .*: column 'text' holds 0, a text is expected"
    ):
        read(place, "numbers", streaming)


def test_a_missing_data_set_is_refused_in_one_line(tmp_path):
    with pytest.raises(RelposError, match="nowhere") as caught:
        read(tmp_path / "nowhere", "book")
    assert "\n" not in str(caught.value)


def test_a_folder_is_known_by_its_content(place):
    def identity(folder: Path) -> object:
        return Hub(texts=[{"id": str(folder), "config": "book"}], glue=str(folder)).identity()

    before = identity(place)
    assert identity(place.rename(place.with_name("elsewhere"))) == before
    place = place.with_name("elsewhere")
    pq.write_table(pa.table({"text": ["another text"]}), place / "book" / FILE)
    assert identity(place) != before


def test_a_folder_of_glue_is_known_by_its_content(place):
    hub = Hub(texts=[], glue=str(place))
    before = hub.glue_identity({"name": "rte"})
    (place / "more.txt").write_text("x")
    assert hub.glue_identity({"name": "rte"}) != before
    assert Hub(texts=[], glue="a/b", glue_revision="r").glue_identity({"name": "rte"}) == {
        "hub": {"id": "a/b", "config": "rte", "revision": "r"}
    }


def test_the_commit_of_a_data_set_is_recorded(place, monkeypatch):
    import datasets

    of_folder = Hub(texts=[{"id": str(place), "config": "book"}])
    list(of_folder.documents())
    assert of_folder.revisions == {}
    with monkeypatch.context() as patch:
        patch.setattr(
            datasets,
            "load_dataset_builder",
            lambda *_, revision: SimpleNamespace(hash=(revision or "a") * 40),
        )
        patch.setattr("relpos.data.hub.documents", lambda *_: iter(()))
        on_the_hub = Hub(texts=[{"id": "a/b"}, {"id": "a/b", "revision": "b"}])
        list(on_the_hub.documents())
    assert on_the_hub.revisions == {"a/b": "a" * 40, "a/b@b": "b" * 40}
