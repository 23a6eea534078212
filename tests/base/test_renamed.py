"""Old names: each works as its new one does, and warns the first time it is used."""

import subprocess
import sys
import warnings

import pytest

import iosim
from iosim.base.errors import InputError
from iosim.base.renamed import renamed
from iosim.sweep import Sweep


@pytest.fixture(autouse=True)
def forgotten():
    renamed.cache_clear()


def _warns(old, new, use):
    """What `use` returns, having checked that it warns once and names both."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = use()
        use()
    assert [(x.category, str(x.message)) for x in seen] == [
        (DeprecationWarning, f"{old} is now called {new}; the old name goes with the next version")
    ]
    assert seen[0].filename == __file__
    return got


def test_a_sweeps_algo_is_its_schedule(tmp_path):
    grid = {"N": 64, "d": 8, "M": 1024}
    old = _warns("algo of a sweep", "schedule", lambda: Sweep.of(algo="flash2", **grid))
    assert old == Sweep.of(schedule="flash2", **grid)
    with pytest.raises(InputError, match="both are there"):
        Sweep.of(algo="flash2", schedule="naive", **grid)
    # What is typed takes precedence over a file, by its old name too.
    (tmp_path / "s.toml").write_text('algo = "flash2"\nN = 64\nd = 8\nM = 1024\n')
    assert Sweep.from_toml(tmp_path / "s.toml", schedule="naive").algorithms == ("naive",)


def test_an_entry_that_is_half_written_is_one_line(tmp_path, monkeypatch):
    from iosim.base.registry import registered

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lacks_a_field.py").write_text(
        "from iosim.core.algorithms import Algorithm\nALGORITHM = Algorithm(name='half')\n"
    )
    (tmp_path / "lacks_all.py").write_text("")
    for module in ("lacks_a_field", "lacks_all"):
        with pytest.raises(InputError, match=f"^{module} makes no ALGORITHM: .*"):
            registered("algorithm", "half", {"half": module}, "ALGORITHM", iosim.Algorithm)


def test_python_itself_shows_the_warning_to_whoever_uses_the_name():
    old = "iosim" + ".problem"
    code = f"import {old}, {old}.copy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count(f"{old} is now called iosim.core.problem;") == 1


def test_python_runs_a_module_by_its_old_place_and_warns():
    old = "iosim" + ".counts"
    done = subprocess.run([sys.executable, "-m", old], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.count(f"{old} is now called iosim.core.counts;") == 1
    # What runs is the new place's code, as the main program.
    code = f"import runpy, sys; print(runpy.run_module({old!r}, run_name='__main__')['Counts'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "<class '__main__.Counts'>\n"


def test_looking_for_an_old_place_imports_nothing():
    # Python looks under a lock on all imports: two threads would wait for each other for ever.
    code = "import sys, importlib.util; importlib.util.find_spec('iosim' + '.counts')\n"
    code += "assert 'iosim.core.counts' not in sys.modules\n"
    code += "assert __import__('iosim' + '.fusion.rows').fusion.rows.__name__[6:] == %r"
    code %= "models.fusion.rows"
    subprocess.run([sys.executable, "-c", code], check=True)
