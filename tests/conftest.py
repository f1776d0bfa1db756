"""Fixtures every test may use: a folder for runs of its own, and one small toy language for the
whole session."""

import atexit
import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from awake import Awake
from linked import link_runs
from process_state import ProcessState
from relpos.when_imported import import_quickly, when_imported
from shapes import install

# imports make a million objects that stay: looking for circles among them takes a seventh of the
# time
gc.disable()
NUMBERS = count()
HELDOUT = 100
"""Held-out examples along a training: two thirds of a training of a few steps would go into all of
them."""

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# else they write to stderr wherever a process is forked after their use
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# before anything imports Triton; 0 compiles it, on a GPU
os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_INIT_TIMEOUT", "600")
# seconds: a busy machine takes its time to start a process
os.environ.setdefault("WANDB__SERVICE_WAIT", "600")
os.environ["RELPOS_COMPILE"] = "0"  # the same bits with and without a compiler
# a script's background jobs, and all they start, would not hear Ctrl-C
signal.signal(signal.SIGINT, signal.default_int_handler)
import_quickly()  # as the processes that relpos starts do
install()  # before what it checks is imported
# A run waits twenty times for the disk; what tests write need not outlive a power cut.
os.fsync = lambda _: None
# A figure of the kernels takes twice as long as all else of a training of a few steps; the fixture
# `drawing` brings it back.
when_imported(
    "relpos.stages.pretrain",
    lambda: setattr(sys.modules["relpos.stages.pretrain"], "draw_kernels", lambda *_: False),
)
when_imported(
    "relpos.train.pretrain",
    lambda: setattr(sys.modules["relpos.train.pretrain"], "HELDOUT_EXAMPLES", HELDOUT),
)
# Hydra composes each command's configuration twice, first to learn whether it is a sweep: here -m
# alone says so.
when_imported(
    "hydra._internal.hydra",
    lambda: setattr(sys.modules["hydra._internal.hydra"].Hydra, "get_mode", lambda *_, **__: None),
)
# the font manager reports a slow first start on stderr
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
# The same examples each time, however long a busy machine takes over them, and no folder that
# processes share.
settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    # Python takes three seconds to take apart what has been imported: no worker of pytest-xdist
    # does. Elsewhere libraries complain at its end about what is left.
    atexit.register(*((os._exit, 0) if hasattr(config, "workerinput") else (gc.unfreeze,)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("RELPOS_FULL"):
        # These take longest: begun first, none is waited for at the end, and no two workers make
        # what a module of them shares.
        items.sort(key=lambda item: item.get_closest_marker("full") is None)
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(
                pytest.mark.skip(reason="RELPOS_FULL=1 runs it, as continuous integration does")
            )


def pytest_collection_finish() -> None:
    # what is imported by now lives as long as the process: no collection need look at it
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _process(tmp_path_factory: pytest.TempPathFactory) -> ProcessState:
    """The process before the first test; it writes neither into the runs nor into the home of the
    person who starts it."""
    # runs of fixtures that serve a module
    os.environ["RELPOS_RUNS"] = str(tmp_path_factory.mktemp("runs"))
    for name in ("CACHE", "CONFIG", "DATA"):
        os.environ[f"WANDB_{name}_DIR"] = str(tmp_path_factory.mktemp("wandb"))
    return ProcessState(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _as_before(_process: ProcessState) -> Iterator[None]:
    """No test finds what another one, or a fixture of its module, has left in the process."""
    _process.restore()
    yield
    _process.restore()


@pytest.fixture(autouse=True)
def _own_runs(
    _as_before: None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No test writes into the runs of the person who starts it, or finds theirs."""
    # A folder takes as long as many a test: only those that ask for one have it.
    asks = "tmp_path" in request.fixturenames
    own = (
        request.getfixturevalue("tmp_path")
        if asks
        else tmp_path_factory.getbasetemp() / f"without_a_folder{next(NUMBERS)}"
    )
    monkeypatch.setenv("RELPOS_RUNS", str(own / "runs"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must be refused, and returns the one line that says why."""
    from relpos.cli import main

    def refused(*command: str) -> str:
        capsys.readouterr()
        assert main(command) == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return refused


@pytest.fixture(scope="session")
def drawing() -> Callable[[pytest.MonkeyPatch], None]:
    """Called, it lets pre-trainings draw their kernels."""

    def drawing(patch: pytest.MonkeyPatch) -> None:
        from relpos.analysis.kernels import draw_kernels

        patch.setattr("relpos.stages.pretrain.draw_kernels", draw_kernels)

    return drawing


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """$RELPOS_RUNS with the toy language, its tokenizer and its store made once for all workers;
    copy or link from it."""
    from relpos.config.compose import compose
    from relpos.runs.execute import execute
    from relpos.runs.plan import plan

    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "prepared"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELPOS_RUNS", str(root))
        # a worker that comes while another makes it waits, and then finds it
        execute(plan(compose("data")))
    return root


@pytest.fixture
def toy_runs(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh $RELPOS_RUNS in which the toy's data are there already."""
    root = tmp_path / "runs"
    root.mkdir(exist_ok=True)
    link_runs(prepared, root)
    # a test may ask for this fixture after it has begun
    monkeypatch.setenv("RELPOS_RUNS", str(root))
    return root


@pytest.fixture(scope="session")
def tokenizer(prepared: Path) -> Any:
    """The toy language's tokenizer."""
    from relpos.data.published_tokenizer import load_tokenizer

    return load_tokenizer(next((prepared / "tokenizer").iterdir()))


@pytest.fixture(scope="session")
def store(prepared: Path) -> Any:
    """The toy language, tokenised."""
    from relpos.data.store import Store

    return Store(next((prepared / "store").iterdir()))


@pytest.fixture(scope="session")
def _model_folder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from relpos.config.compose import compose, resolved
    from relpos.model.architecture import Architecture
    from relpos.model.build import build
    from relpos.ranges import parsed
    from relpos.train.weights import save_model

    cfg = compose("params", ["size=tiny", "position=composite", f"vocabulary={tokenizer.size}"])
    folder = tmp_path_factory.mktemp("a_network")
    save_model(folder, build(parsed(Architecture, resolved(cfg))), tokenizer)
    return folder


@pytest.fixture
def model_folder(_model_folder: Path, tmp_path: Path) -> Path:
    """A model folder with a network of `position=composite` that nobody has trained."""
    return Path(shutil.copytree(_model_folder, tmp_path / "model_of_a_stranger"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as playwright drives it."""
    sync_api: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(
        filter(
            None,
            map(
                shutil.which,
                ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
            ),
        ),
        None,
    )
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as driver:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
        # ms: a busy machine takes its time
        started = driver.chromium.launch(executable_path=path, args=flags, timeout=400_000.0)
        yield started
        started.close()


@contextmanager
def _forked() -> Iterator[str]:
    """A Python that begins as this process is now."""
    import relpos.commands.reproduce
    import relpos.launch.worker
    import relpos.runs.training  # noqa: F401  what takes seconds
    from relpos.config.compose import compose

    compose("reproduce", ["table=demo"])

    with TemporaryDirectory() as folder:
        awake = Awake(Path(folder))
        yield str(awake.python)
        awake.close()


@pytest.fixture(scope="session")
def _awake() -> Iterator[str]:
    with _forked() as name:
        yield name


@pytest.fixture
def as_now(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Called, it makes `sys.executable` a Python that begins as this process is then, with what the
    test has replaced in it."""
    with ExitStack() as stack:
        yield lambda: monkeypatch.setattr(sys, "executable", stack.enter_context(_forked()))


@pytest.fixture
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What to call instead of `sys.executable`, which it becomes: without the seconds that imports
    take, see `awake`.

    With RELPOS_FULL the tests marked slow, in which runs are trained by several processes, start
    real interpreters.
    """
    if os.environ.get("RELPOS_FULL") and request.node.get_closest_marker("slow"):
        return sys.executable
    name: str = request.getfixturevalue("_awake")
    monkeypatch.setattr(sys, "executable", name)
    return name
