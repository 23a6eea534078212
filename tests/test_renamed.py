"""Old names: each works as its new one does, and warns the first time it is used."""

import subprocess
import sys
import warnings

import pytest

import iosim
from iosim.gpu import Lockstep, emit
from iosim.hardware import machine
from iosim.operators import operand
from iosim.renamed import old_names, renamed


@pytest.fixture(autouse=True)
def forgotten():
    renamed.cache_clear()


def _warns(old, new, use):
    """What `use` returns, having checked that it warns once and names both."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = use()
        use()
    assert [(x.category, str(x.message)) for x in seen] == [
        (DeprecationWarning, f"{old} is now called {new}; the old name goes with the next version")
    ]
    assert seen[0].filename == __file__
    return got


def test_a_builders_hold_is_a_stationary_part():
    def rows(name):
        def text(b):
            W = getattr(b, name)("n", "W")
            x = b.load("X", b.span("n", 0, W))
            b.store(x, "Y", b.span("n", 0, W))
            b.free(x)

        return iosim.build("rows", iosim.Copy, text)

    assert _warns("Builder.hold", "stationary", lambda: rows("hold")) == rows("stationary")


def test_an_operand_called_otherwise_is_renamed():
    x = operand("X", "i", {"i": 8})
    assert _warns("Operand.called", "renamed", lambda: x.called("Y")) == x.renamed("Y")


def test_what_a_schedule_over_devices_ends_with_is_its_output():
    from iosim.devices.builder import trace

    def text(name):
        def send(b):
            x = b.holds("X", "n")
            getattr(b, name)(x, "Y")

        return lambda: trace("same", iosim.Copy.plain_form(), send)

    assert _warns("DeviceBuilder.ends", "output", text("ends")) == text("output")()


def test_in_step_is_lockstep():
    from iosim.cache import shared

    old = f"{shared.__name__}.in_step"
    assert _warns(old, "lockstep", lambda: shared.in_step) is shared.lockstep
    with pytest.raises(AttributeError, match="has no attribute 'ste'"):
        shared.ste  # noqa: B018
    assert _warns(f"{iosim.gpu.__name__}.InStep", "Lockstep", lambda: iosim.gpu.InStep) is Lockstep


def test_in_step_of_a_kernel_and_of_reads():
    from iosim.gpu.dram_prediction import reads
    from iosim.gpu.run.job import Job

    sizes, tiles = {"N": 4096, "d": 64, "heads": 1}, {"B_r": 64, "B_c": 32}
    instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    emitted = _warns("emit(in_step=…)", "lockstep", lambda: emit(instance, in_step=Lockstep(8)))
    assert emitted == emit(instance, Lockstep(8))
    (kernel,) = emitted.kernels
    assert _warns("Kernel.in_step", "lockstep", lambda: kernel.in_step) is kernel.lockstep is True
    found = reads(Job("flash2", sizes, tiles), machine("h200"))
    assert _warns("Reads.in_step", "lockstep", lambda: found.in_step) == found.lockstep > 0


def test_a_name_that_never_was_is_none():
    with pytest.raises(AttributeError, match="module 'm' has no attribute 'x'"):
        old_names("m", {})("x")


def test_python_itself_shows_the_warning_to_whoever_uses_the_name():
    code = "from iosim.cache import shared; shared.in_step(2); shared.in_step(3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("in_step is now called lockstep") == 1
