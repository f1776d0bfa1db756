"""No version of a dependency that has a known advisory is allowed, and the versions that are
installed are allowed."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
BAD = {
    "torch": ["2.5.1", "2.9.1"],
    "pytorch-lightning": ["2.5.6", "2.6.1", "2.6.2", "2.6.3", "2.6.5"],
    "hydra-core": ["1.3.2", "1.3.6", "1.3.7"],
    "datasets": ["4.5.0", "5.0.0"],
    "sentencepiece": ["0.2.0"],
    "filelock": ["3.20.0", "3.20.2"],
    "jinja2": ["3.1.5"],
    "wandb": ["0.28.1"],
    "transformers": ["4.57.6", "5.2.0", "5.4.0", "5.9.0"],
    "pytest": ["9.0.2"],
}
"""Package → versions with an advisory, the last ones among them; pyproject.toml has the advisories'
names."""


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for each in lists for line in each]


def test_every_package_with_an_advisory_is_asked_for():
    assert set(BAD) <= {canonicalize_name(requirement.name) for requirement in requirements()}


@pytest.mark.parametrize("name", BAD)
def test_versions_with_an_advisory_are_not_allowed(name):
    asked = [
        requirement.specifier
        for requirement in requirements()
        if canonicalize_name(requirement.name) == name
    ]
    assert [
        version for version in BAD[name] if any(version in specifier for specifier in asked)
    ] == []


def pins(file: str) -> dict[str, str]:
    """Package → version, the first where there are several for versions of Python."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := re.match(r"([\w.-]+)==([^; ]+)", line))]
    return {canonicalize_name(match[1]): match[2] for match in reversed(found)}


def test_the_files_that_are_installed_have_checksums():
    pinned, core, others = (
        pins(file) for file in ("constraints.txt", "hashes.txt", "hashes-dev.txt")
    )
    hashed = core | others
    assert core.keys() & others.keys() == set()
    assert {
        name: version for name, version in hashed.items() if pinned.get(name, version) != version
    } == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    besides = [
        line
        for name in ("dev", "dashboard", "gpu", "launchers", "loggers", "pretrained")
        for line in extras[name]
    ]
    for lines, there in ((project["dependencies"], core), (besides, hashed)):
        assert {canonicalize_name(Requirement(line).name) for line in lines} - {
            "relpos",
            "torch",
            "triton",
        } <= set(there)
    for file in ("hashes.txt", "hashes-dev.txt"):
        entries = re.split(r"\n(?=[\w.-]+==)", (ROOT / file).read_text(encoding="utf-8"))[1:]
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_versions_that_are_installed_are_allowed():
    pinned = pins("constraints.txt")
    asked = [
        requirement
        for requirement in requirements()
        if canonicalize_name(requirement.name) in pinned
    ]
    assert len(asked) > 20
    refused = [
        str(each) for each in asked if pinned[canonicalize_name(each.name)] not in each.specifier
    ]
    assert refused == []
