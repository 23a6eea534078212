"""The command line as one value, for the page that lists its commands."""

from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program

iosim = program(COMMANDS)
