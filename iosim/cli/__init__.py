"""The command line: modules here parse arguments, call the other wings, and print.

`main` is the entry point of ``iosim`` and of ``python -m iosim``.  Nothing imports this wing.
`commands` lists every command with its module, which `registry` imports only when the command runs.
To add a command, write a function in the module of its group, and in ``commands.toml`` a table and
its name in a section.  `options` has the options that commands share; compute nothing here that
Python users might want, too.

Changing files here: this ``__init__`` imports next to nothing, so that an interrupt during startup
is one line; ``tests/docs/test_surface.py`` checks which libraries each command loads.  Keys of
``--json`` and exit codes are read by scripts: add, but don't rename.  Rename an option through
`renames`, which keeps the old spelling for one version.  Messages and help are compared in
``tests/cli``, and sessions in the documents are run (``tests/docs``).
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# Exit codes other than 0, and 1 for a check that failed.
INPUT, BUG, INTERRUPTED, NOBODY_READS = 2, 70, 130, 141


def main() -> NoReturn:
    """Entry point: whatever goes wrong is one line on stderr, and an exit code that says what.

    IOSIM_DEBUG=1 in the environment shows the traceback as well.
    """
    # First of all, since an interrupt may come at any time; the rest is imported under it.
    interrupted = []

    def interrupt(*_: object) -> None:
        interrupted.append(True)
        raise KeyboardInterrupt

    def unraisable(what: sys.UnraisableHookArgs) -> None:
        # Python drops an interrupt in a callback or a finalizer: it is raised a moment later.
        if what.exc_type is not KeyboardInterrupt:
            usual(what)
        elif hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.01)

    usual, sys.unraisablehook = sys.unraisablehook, unraisable
    signal.signal(signal.SIGINT, interrupt)
    said = ""
    try:
        _streams()
        from iosim.base.progress import listen
        from iosim.cli.commands import COMMANDS, SECTIONS
        from iosim.cli.registry import run
        from iosim.cli.terminal import Printable, warnings_as_notes
        from iosim.cli.watching import ProgressDisplay

        shown = ProgressDisplay()
        stdout, sys.stdout = sys.stdout, Printable(sys.stdout, before=shown.wipe)
        try:
            with warnings_as_notes(), listen(shown):
                code = run(COMMANDS, sys.argv[1:], SECTIONS)
            sys.stdout.flush()
        finally:
            sys.stdout = stdout
    except BaseException as error:
        # Extension modules turn an interrupt of their import into errors of all kinds.
        found = KeyboardInterrupt() if interrupted else error
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        from iosim.cli.failures import explain

        code, said = explain(found)
    if code == INTERRUPTED:
        said = "interrupted"
        # Threads that wait for workers find them ended, and their calls cancelled.
        import threading

        threading.excepthook = lambda _: None
    # From here on an interrupt ends the process without a word, as the interpreter shuts down.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.unraisablehook = usual
    if said:
        print(f"iosim: {said}", file=sys.stderr)
    atexit.register(_spare)
    sys.exit(code)


def _spare() -> None:
    """Leave no garbage to look for among all that a process made, as it ends.

    Triton's bindings say what is left of them, so they are cleared.
    """
    if "triton" not in sys.modules:
        gc.freeze()


def _streams() -> None:
    """Streams that can be written: closed ones go to os.devnull, and any text is printable."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
