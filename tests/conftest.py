"""Options shared by all tests."""

from __future__ import annotations

import fcntl
import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sizes
from hypothesis import settings

# They need a browser: `pytest tests/browser` runs them.
collect_ignore = ["browser"]

# What differs between versions of Python: a test whose module imports one of these is `portable`.
PYTHON_DEPENDENT = {
    "asyncio",
    "doctest",
    "multiprocessing",
    "os",
    "pickle",
    "pkgutil",
    "signal",
    "subprocess",
    "threading",
    "tomllib",
    "zipfile",
}

# The same examples each time; or, at length, new ones, whose failure says how to have it again.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the exhaustive versions as well")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_configure(config: pytest.Config) -> None:
    sizes.slow = config.getoption("--slow")
    settings.load_profile("nightly" if sizes.slow else "ci")
    gc.disable()  # what is imported stays


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        gone = [i for i in items if "slow" in i.keywords]
        config.hook.pytest_deselected(items=gone)
        items[:] = [i for i in items if "slow" not in i.keywords]
    for item in items:
        if PYTHON_DEPENDENT & vars(getattr(item, "module", None) or object).keys():
            item.add_marker("portable")


@pytest.fixture(scope="session")
def run_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run of the tests have."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture
def brief_annealing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, run_folder: Path
) -> None:
    """The solver's annealing stops after so many changes, not after seconds.

    Chains are looked for briefly, too.  While its loops are compiled the solver rests, and of tests
    at the same time one has them compiled.
    With --slow it takes as long as it does for a user.
    """
    if request.config.getoption("--slow"):
        return
    from iosim.pebbling import jit_warmup, search
    from iosim.pebbling.annealing import Annealing

    real, few, waiting, choose = Annealing.run, 300, jit_warmup.waiting, search.choose
    turn = run_folder / "compiling"

    def run(self: Annealing, seconds: float, steps: int | None = None, enough: int = 0) -> None:
        real(self, seconds, few if steps is None else min(steps, few), enough)

    def resting() -> Iterator[float]:
        if jit_warmup.loaded():
            return
        with turn.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for _ in waiting():
                time.sleep(0.05)
                yield 0.0

    monkeypatch.setattr(Annealing, "run", run)
    monkeypatch.setattr(search, "waiting", resting)
    monkeypatch.setattr(
        search,
        "choose",
        lambda p, value, seconds, *more: choose(p, value, min(seconds, 0.2), *more),
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare a text with a golden file; --update-golden rewrites it, to be read as a diff."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden and read the diff"
        assert text == path.read_text(encoding="utf-8"), f"{name} changed: see --update-golden"

    return check
