"""No version of a dependency that has a known advisory is allowed, and the versions that are
installed are allowed."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.packaging.links import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE, EXTRAS = PROJECT["dependencies"], PROJECT["optional-dependencies"]
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


def ranges(*lists: list[str]) -> list[tuple[str, SpecifierSet]]:
    """(name, versions that are allowed) of requirements."""
    requirements = [Requirement(line) for lines in lists for line in lines]
    return [(canonicalize_name(package.name), package.specifier) for package in requirements]


RANGES = ranges(CORE, *EXTRAS.values())


@pytest.mark.parametrize("name", BAD)
def test_versions_with_an_advisory_are_not_allowed(name):
    specifiers = [specifier for package, specifier in RANGES if package == name]
    assert specifiers != []
    allowed = {version for specifier in specifiers for version in specifier.filter(BAD[name])}
    assert allowed == set()


def pins(file: str) -> dict[str, str]:
    """Package → version, the first where there are several for versions of Python."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    matches = [match for line in lines if (match := re.match(r"([\w.-]+)==([^; ]+)", line))]
    return {canonicalize_name(match[1]): match[2] for match in reversed(matches)}


def test_the_files_that_are_installed_have_checksums():
    pinned, core, others = (
        pins(file) for file in ("constraints.txt", "hashes.txt", "hashes-dev.txt")
    )
    hashed = core | others
    assert core.keys() & others.keys() == set()
    assert {
        name: version for name, version in hashed.items() if pinned.get(name, version) != version
    } == {}
    names = ("dev", "dashboard", "gpu", "launchers", "loggers", "pretrained")
    extras = ranges(*(EXTRAS[name] for name in names))
    for needs, versions in ((ranges(CORE), core), (extras, hashed)):
        assert dict(needs).keys() - {"relpos", "torch", "triton"} <= versions.keys()
    for file in ("hashes.txt", "hashes-dev.txt"):
        entries = re.split(r"\n(?=[\w.-]+==)", (ROOT / file).read_text(encoding="utf-8"))[1:]
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_versions_that_are_installed_are_allowed():
    pinned = pins("constraints.txt")
    pairs = [(name, specifier) for name, specifier in RANGES if name in pinned]
    assert len(pairs) > 20
    assert [name for name, specifier in pairs if pinned[name] not in specifier] == []
