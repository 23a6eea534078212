"""At the end of a run: which thresholds hold, and status 1 where one doesn't."""

from __future__ import annotations

import os

import pytest
import thresholds

LOADED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(thresholds.ONLY_PRINT, action="store_true", help=thresholds.HELP)
    parser.addoption(
        thresholds.TINY_OPTION,
        action="store_true",
        help="each benchmark once, tiny, without thresholds",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LOADED] = os.getloadavg()[0]
    thresholds.tiny = config.getoption(thresholds.TINY_OPTION)
    if thresholds.tiny:
        config.option.benchmark_disable = True


def of(config: pytest.Config) -> tuple[str, int]:
    return thresholds.report(config.stash[LOADED], config.getoption(thresholds.ONLY_PRINT))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    _, status = of(session.config)
    session.exitstatus = exitstatus or status


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    text, _ = of(config)
    if text:
        terminalreporter.section("thresholds")
        terminalreporter.write_line(text)
