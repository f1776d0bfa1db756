"""Networks that transformers has no class for are known to it once both libraries are imported, in either order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relpos.when_imported import when_imported


def test_a_module_that_is_not_there_stays_that(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    when_imported("relpos_has_no_such_module", lambda: called.append("called"))
    with pytest.raises(ModuleNotFoundError):
        __import__("relpos_has_no_such_module")
    assert called == []


@pytest.mark.parametrize(
    "code",
    [
        "import relpos, sys; assert not {'transformers', 'torch'} & sys.modules.keys(); from transformers import AutoConfig",
        "from transformers import AutoConfig; import relpos",
    ],
    ids=["relpos first", "transformers first"],
)
def test_either_order_of_import_registers_and_import_relpos_alone_loads_nothing(code: str) -> None:
    pytest.importorskip("transformers", reason="needs relpos[pretrained]")
    code += "; print(type(AutoConfig.for_model('relpos')).__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "relpos.train.huggingface_config", done.stderr
