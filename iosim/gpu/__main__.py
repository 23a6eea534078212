"""``python -m iosim.gpu``."""

from iosim.gpu.cli import main

main()
