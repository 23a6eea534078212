"""Options shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import sizes
from hypothesis import settings

# They need a browser: `pytest tests/browser` runs them.
collect_ignore = ["browser"]

settings.register_profile("iosim", deadline=None, derandomize=True)
settings.load_profile("iosim")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the exhaustive versions as well")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_configure(config: pytest.Config) -> None:
    sizes.slow = config.getoption("--slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        gone = [i for i in items if "slow" in i.keywords]
        config.hook.pytest_deselected(items=gone)
        items[:] = [i for i in items if "slow" not in i.keywords]


@pytest.fixture
def brief_annealing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver's annealing stops after so many changes, not after seconds.

    With --slow it takes as long as it does for a user.
    """
    if request.config.getoption("--slow"):
        return
    from iosim.pebbling.annealing import Annealing

    real, few = Annealing.run, 300

    def run(self: Annealing, seconds: float, steps: int | None = None, enough: int = 0) -> None:
        real(self, seconds, few if steps is None else min(steps, few), enough)

    monkeypatch.setattr(Annealing, "run", run)


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
