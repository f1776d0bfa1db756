"""Exported networks open where relpos is not installed, with the code that their folder carries,
and compute the same."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import relpos
from relpos.commands.export import write
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.model.build import build
from relpos.ranges import parsed
from relpos.train import standalone
from schemes import CONVS, FULL, POSITIONS, SIZE, node, sampled

transformers = pytest.importorskip("transformers", reason="needs relpos[pretrained]")
transformers.utils.logging.disable_progress_bar()

MERGED = {
    "_target_": "relpos.model.position.Merge",
    "parts": [node("position", "rope"), node("position", "composite")],
}
CONVOLUTIONS = {
    "_target_": "relpos.model.conv.Merge",
    "parts": [node("conv", "depthwise"), node("conv", "qk")],
}
NETWORKS: dict[str, tuple[Any, Any, int | None]] = {
    "composite": (node("position", "composite"), node("conv", "none"), None),
    "tisa": (node("position", "tisa"), node("conv", "none"), None),
    "rope_depthwise": (node("position", "rope"), node("conv", "depthwise"), None),
    "merged_convbert": (MERGED, node("conv", "convbert"), None),
    "inkling_merged": (node("position", "inkling"), CONVOLUTIONS, None),
    "modernbert_canon": (node("position", "modernbert"), node("conv", "canon"), None),
    "kv_shift": (node("position", "fixed"), node("conv", "kv_shift"), None),
    "causal": (node("position", "composite"), node("conv", "none"), None),
    "classifier": (node("position", "shaw"), node("conv", "qk"), 3),
}
"""Position scheme, convolution, outputs of a classifier."""
if not FULL:
    NETWORKS = {
        name: NETWORKS[name]
        for name in ("composite", "tisa", "merged_convbert", "causal", "classifier")
    }
MODERN = {"norm_first": True, "norm": "rms", "glu": True, "bias": False, "qk_norm": True}
LAYERS = {
    "causal": {"attention": "causal", **MODERN},
    "modernbert_canon": MODERN,
}
"""Whose layers are not the papers'."""

ELSEWHERE = """
import importlib.util, json, sys
from pathlib import Path

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("relpos", "jaxtyping", "pytorch_lightning", "hydra", "omegaconf"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refusing())
import torch, transformers
transformers.utils.logging.disable_progress_bar()
answers = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    kind = {"classifier": "SequenceClassification", "causal": "CausalLM"}.get(folder.name, "MaskedLM")
    auto, trusting = getattr(transformers, "AutoModelFor" + kind), {"trust_remote_code": True}
    model = auto.from_pretrained(folder, dtype=torch.float64, **trusting).eval()
    given = torch.load(folder / "given.pt")
    different = (model(given["ids"], attention_mask=given["mask"]).logits - given["logits"]).abs().max().item()
    answers[folder.name] = {"different": different, "class": type(model).__name__}
    if kind == "MaskedLM":
        found = transformers.pipeline("fill-mask", model=str(folder), top_k=2, **trusting)("the [MASK], and cats.")
        answers[folder.name]["filled"] = [one["token"] for one in found]
    if kind != "SequenceClassification":
        model.train()
        model(given["ids"], attention_mask=given["mask"], labels=given["ids"]).loss.backward()
        answers[folder.name]["trained"] = all(part.grad is not None for part in model.parameters())
        model.save_pretrained(folder / "again")
        again = auto.from_pretrained(folder / "again", dtype=torch.float64, **trusting)
        answers[folder.name]["again"] = all(map(torch.equal, model.parameters(), again.parameters()))
answers["modules"] = [name for name in sys.modules if name.partition(".")[0] in ("relpos", "jaxtyping", "omegaconf")]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def exported(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each network, with inputs and our logits beside it."""
    root = tmp_path_factory.mktemp("exported")
    ids = torch.randint(5, tokenizer.size, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    for name, (position, conv, outputs) in NETWORKS.items():
        settings = {
            "size": SIZE | LAYERS.get(name, {}),
            "position": position,
            "conv": conv,
            "vocabulary": tokenizer.size,
        }
        settings |= {"outputs": outputs} if outputs else {}
        torch.manual_seed(0)
        model = build(parsed(Architecture, settings)).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 0.3)
        write(root / name, model, tokenizer, str)
        torch.save(
            {"ids": ids, "mask": mask, "logits": model(ids, mask).detach()},
            root / name / "given.pt",
        )
    return root


@pytest.fixture(scope="module")
def elsewhere(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a Python says that has transformers and torch, but neither relpos nor its other
    libraries."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-I", "-c", ELSEWHERE, str(exported)]
    done = subprocess.run(
        command, cwd=cache, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.full
def test_exported_networks_compute_the_same_without_relpos(elsewhere):
    assert elsewhere["modules"] == []
    for name in NETWORKS:
        assert elsewhere[name]["different"] < 1e-10, name
    assert elsewhere["classifier"]["class"] == "RelposForSequenceClassification"


@pytest.mark.full
def test_without_relpos_the_pipeline_fills_masks_as_we_do(elsewhere, exported):
    for name in NETWORKS:
        if name not in ("causal", "classifier"):
            [guesses] = relpos.FillMask(exported / name)("the [MASK], and cats.", top=2)
            assert elsewhere[name]["filled"] == [guess.id for guess in guesses], name


@pytest.mark.full
def test_exported_networks_are_trained_and_saved_with_their_code(elsewhere, exported):
    for name in NETWORKS:
        if name != "classifier":
            assert elsewhere[name]["trained"], name
            assert elsewhere[name]["again"], name
            relpos.load(exported / name)


def test_a_network_saved_with_relpos_carries_the_code_too(exported, tmp_path):
    model = transformers.AutoModelForMaskedLM.from_pretrained(exported / "tisa")
    assert type(model).__module__ == "relpos.train.huggingface"
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == standalone.AUTO_MAP
    for path in (exported / "tisa").glob("*.py"):
        assert (tmp_path / path.name).read_text() == path.read_text()


def test_relpos_never_runs_the_code_of_a_folder(exported, tmp_path):
    for path in (exported / "composite").iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "modeling_relpos.py").write_text("raise SystemExit('a stranger')", encoding="utf-8")
    given = torch.load(tmp_path / "given.pt")
    model, _ = relpos.load(tmp_path)
    torch.testing.assert_close(model(given["ids"], given["mask"]), given["logits"])
    # once relpos is imported, its own classes come first
    for trusting in ({}, {"trust_remote_code": True}):
        theirs = transformers.AutoModelForMaskedLM.from_pretrained(
            tmp_path, dtype=torch.float64, **trusting
        ).eval()
        torch.testing.assert_close(theirs(given["ids"], given["mask"]).logits, given["logits"])


@pytest.mark.parametrize("kind", ["position", "conv"])
def test_the_code_is_complete_for_every_scheme(kind, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in sampled(POSITIONS if kind == "position" else CONVS):
        settings = {"position": node("position", "none"), "conv": node("conv", "none")} | {
            kind: node(kind, name)
        }
        opened = carried(tmp_path / name, settings)
        assert settings[kind]["_target_"] in import_module(f"{name}.trust").NAMED
        absent = r"(from|import) (relpos|jaxtyping|hydra|omegaconf)\b"
        assert not [line for line in opened if re.search(absent, line) and ">>>" not in line], name


def carried(folder: Path, settings: dict[str, Any]) -> list[str]:
    """Imports the code of a network from a folder; all its lines."""
    folder.mkdir()
    (folder / "__init__.py").touch()
    architecture: Any = SimpleNamespace(**settings)
    standalone.write(folder, architecture)
    import_module(f"{folder.name}.modeling_relpos")
    return [
        line
        for path in folder.glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.parametrize("module", ["mine_of_standalone", "heads"])
def test_a_scheme_of_the_users_own_travels_too(module, tmp_path, monkeypatch):
    (tmp_path / f"{module}.py").write_text(
        "from math import *\n\nimport torch\nfrom relpos.model.position import Scheme, Terms\nfrom "
        "jaxtyping import Float\n\n"
        "try:\n    HALF = 0.5\nfinally:\n    pass\n\n"
        "class Mine(Scheme):\n    def terms(self, layer: int, q: Float[torch.Tensor, 'b h n d'], "
        "k, state):\n"
        "        return Terms(offset=torch.full((self.shape.heads, 2 * q.shape[2] - 1), HALF))\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RELPOS_TRUST", module)
    settings = {"position": {"_target_": f"{module}.Mine"}, "conv": node("conv", "none")}
    carried(tmp_path / f"opened_{module}", settings)
    mine = import_module(f"opened_{module}.trust").NAMED[f"{module}.Mine"]
    shape = import_module(f"opened_{module}.shape").Shape.example()
    assert mine(shape).terms(0, torch.zeros(1, 2, 3, 4), None, None).offset.unique().tolist() == [
        0.5
    ]
    assert mine.__module__ == f"opened_{module}.own_{module}"
    monkeypatch.delenv("RELPOS_TRUST")
    with pytest.raises(RelposError, match=f"trust={module}"):
        standalone.code(**settings)
    sys.modules.pop(module, None)


def test_what_a_scheme_of_the_users_own_imports_from_a_relative_place_is_refused(
    tmp_path, monkeypatch
):
    (tmp_path / "a_point.py").write_text("from .helper import HALF\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        standalone,
        "find",
        lambda target, *_: SimpleNamespace(__module__="a_point", __qualname__="Mine"),
    )
    with pytest.raises(
        RelposError,
        match=r"^module a_point: HALF is imported from .helper: write the full name of that module",
    ):
        standalone.code({"_target_": "a_point.Mine"}, {})
