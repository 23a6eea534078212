"""``python -m iosim``.

It does what the command ``iosim`` does and imports nothing else, so that an early interrupt is one
line (``tests/cli/test_interrupts.py``).  Commands go to `iosim.cli`.
"""

from iosim.cli import main

main()
