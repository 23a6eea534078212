"""At the end of a run: which bars hold, and status 1 where one doesn't."""

from __future__ import annotations

import os

import bars
import pytest

LOADED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(bars.ONLY_PRINT, action="store_true", help=bars.HELP)
    parser.addoption(
        bars.TINY_OPTION, action="store_true", help="each benchmark once, tiny, without bars"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LOADED] = os.getloadavg()[0]
    bars.tiny = config.getoption(bars.TINY_OPTION)
    if bars.tiny:
        config.option.benchmark_disable = True


def of(config: pytest.Config) -> tuple[str, int]:
    return bars.report(config.stash[LOADED], config.getoption(bars.ONLY_PRINT))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    _, status = of(session.config)
    session.exitstatus = exitstatus or status


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    text, _ = of(config)
    if text:
        terminalreporter.section("bars")
        terminalreporter.write_line(text)
