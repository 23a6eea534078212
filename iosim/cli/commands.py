"""The registry of commands: where each is, and its line of help.

So neither ``iosim --help`` nor one command imports what the others need.  ``commands.toml`` has all
but the reports of the GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iosim.base.reading import read_toml
from iosim.gpu.reports import REPORTS

_TABLE = read_toml(Path(__file__).with_suffix(".toml"))
# How the help lists the commands: section → their names.
SECTIONS: dict[str, list[str]] = _TABLE["sections"]
# Commands that were renamed: the old name works for one version.
OLD: dict[str, str] = _TABLE["renamed"]
# What a newcomer can paste after a command's name, where it needs arguments.
EXAMPLES = {name: x["example"] for name, x in _TABLE["commands"].items() if "example" in x}


def _list_commands() -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for name, entry in _TABLE["commands"].items():
        group, _, own = name.rpartition(" ")
        place = found if not group else found.setdefault(group, (_TABLE["groups"][group], {}))[1]
        place[own] = (entry["place"], entry["says"])
        if name == "gpu emit":
            place |= {x: (f"iosim.cli.gpu:{x}", line) for x, (_, line) in REPORTS.items()}
    return found


# Name → (where the command is, the first line of its help).  After a group come its commands.
COMMANDS = _list_commands()
