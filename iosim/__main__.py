"""``python -m iosim``."""

from iosim.cli import main

main()
