"""What a record says of the machine."""

import pytest

from relpos.runs.cost import hardware

FLAGS = "processor\t: 0\nmodel name\t: a CPU\nflags\t\t: fpu sse2 {}\n\nprocessor\t: 1\nflags\t\t: amx_bf16\n"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("avx2 avx512f avx512_bf16", "avx512_bf16"),
        ("avx2 fma", "avx2"),
        ("avx512f avx2", "avx512f"),
        ("", None),
    ],
)
def test_the_widest_vector_instructions_are_recorded(flags, expected, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(FLAGS.format(flags), encoding="utf-8")
    monkeypatch.setitem(hardware.__globals__, "CPUINFO", tmp_path / "cpuinfo")
    machine = hardware()
    assert machine["processor"] == "a CPU"
    assert machine.get("instructions") == expected


def test_a_machine_without_cpuinfo_has_a_processor_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setitem(hardware.__globals__, "CPUINFO", tmp_path / "nothing")
    assert hardware()["processor"]
    assert "instructions" not in hardware()
