"""A trial that may end a process runs once, in one of its own; its result is kept."""

import os
import sys
from pathlib import Path

import pytest
import torch

from model.plain_kind import KIND
from relpos.model.kernels import proof, sweeps

FUSED = proof.fault_of, "relpos.model.kernels.fused"


@pytest.fixture(autouse=True)
def _cache(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def records(tmp_path: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in (tmp_path / "relpos").glob("trial-*.txt")]


def no_process(*_: object, **__: object) -> None:
    raise AssertionError("tried again")


def test_a_trial_without_fault_runs_once_for_each_kind(tmp_path, monkeypatch):
    assert proof.tried(*FUSED, KIND) is None
    monkeypatch.setattr(proof.subprocess, "run", no_process)
    assert proof.tried(*FUSED, KIND) is None
    assert records(tmp_path) == [""]
    with pytest.raises(AssertionError, match="tried again"):
        proof.tried(*FUSED, KIND._replace(head_dim=4))


def test_a_fault_is_kept_until_a_version_changes(tmp_path, monkeypatch):
    for _ in range(2):
        assert proof.tried(os.getcwd) == os.getcwd()
    monkeypatch.setattr(proof.subprocess, "run", no_process)
    assert proof.tried(os.getcwd) == os.getcwd()
    monkeypatch.setattr(proof, "_versions", lambda: ("another",))
    with pytest.raises(AssertionError, match="tried again"):
        proof.tried(os.getcwd)


def test_on_a_cpu_a_success_is_kept_and_a_fault_is_found_anew(tmp_path):
    faults: list[str | None] = []

    def trial(fault: str | None) -> str | None:
        faults.append(fault)
        return fault

    for fault in (None, None, "off", "off"):
        assert proof.tried(trial, fault, of_library="of this processor") == fault
    assert (faults, records(tmp_path)) == ([None, "off", "off"], [""])


def test_a_trial_that_ends_its_process_is_a_fault(tmp_path):
    assert proof.tried(os.abort) == "the process that tried it was ended by SIGABRT"
    assert records(tmp_path) == ["the process that tried it was ended by SIGABRT"]


@pytest.mark.full  # a real interpreter, which has imported nothing yet
def test_a_trial_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(
        "raise SystemExit('read from the working directory')", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(proof.sys, "executable", str(Path(sys.prefix, "bin", "python")))
    assert proof.tried(os.readlink, "/proc/self") != str(os.getpid())


def test_without_another_process_the_trial_runs_here(monkeypatch):
    monkeypatch.setattr(proof.sys, "executable", "/bin/false")
    assert proof.tried(os.getcwd) == os.getcwd()


def test_the_attention_kernel_on_a_gpu_is_tried_apart(monkeypatch):
    monkeypatch.setattr(
        proof, "tried", lambda trial, *arguments: "the process that tried it was ended by SIGSEGV"
    )
    from relpos.model.kernels import triton

    with pytest.warns(
        UserWarning,
        match="attention kernel 'triton' is not used on cuda: the process that tried "
        "it was ended by SIGSEGV",
    ):
        assert not proof.holds.__wrapped__(triton, KIND._replace(device=torch.device("cuda")))


def test_single_passes_on_a_gpu_are_tried_apart(monkeypatch):
    monkeypatch.setattr(proof, "tried", lambda trial, *arguments: trial("cpu", arguments[1]))
    monkeypatch.setattr(
        sweeps, "_example", lambda name, *_: 1 // 0 if name == "cross_entropy" else []
    )
    with pytest.warns(
        UserWarning,
        match=r"compiled cross_entropy fails \(ZeroDivisionError: .*\) in torch.float32 on cuda: plain",
    ):
        assert not sweeps.hold.__wrapped__("cuda", torch.float32)
