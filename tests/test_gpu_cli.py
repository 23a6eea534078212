"""``iosim gpu``: what it refuses, and what it prints."""

from __future__ import annotations

import pytest

from iosim import cli


def _main(monkeypatch, capsys, *args):
    monkeypatch.setattr("sys.argv", ["iosim", "gpu", *args])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, capsys.readouterr()


def test_bad_input_is_one_line_and_exit_2(monkeypatch, capsys, tmp_path):
    for args, said in [
        (("emit", "flash3"), "did you mean 'flash"),
        (("emit", "flash2", "--M", "100"), "M >= 3360"),
        (("emit", "flash2", "--tiles", "B_r=16"), "needs the tile sizes B_c"),
        (("emit", "flash2", "--tiles", "B_r=65536,B_c=64", "--N", "65536"), "smaller tiles"),
        (("validate", "--algorithms", "flash2", "--M", "100"), "M >= 3360"),
        (("validate", "--dtype", "fp8"), "choose fp16, bf16, fp32"),
        (("emit", "flash2", "--programs", "-1"), "programs = -1 is outside 1.."),
        (("emit", "flash2", "--programs", "0"), "programs = 0 is outside 1.."),
        (("emit", "flash2", "--programs", "4", "--every", "0"), "every = 0 is outside 1.."),
        (
            ("validate", "--algorithms", "copy", "--out", str(tmp_path)),
            "no CUDA device|PyTorch is not installed",
        ),
        (("replay", str(tmp_path)), "holds no record"),
        (("bench", "--speed", "9"), "No such option"),
    ]:
        code, out = _main(monkeypatch, capsys, *args)
        assert code == 2
        assert len(out.err.strip().splitlines()) == 1
        assert any(part in out.err for part in said.split("|")), out.err


def test_emit_and_replay_print(monkeypatch, capsys):
    code, out = _main(monkeypatch, capsys, "emit", "flash2", "--N", "1024", "--programs", "4")
    assert code == 0
    assert "def flash2(" in out.out
    assert "wait_for_all" in out.out
