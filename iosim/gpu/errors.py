"""What can be missing or too small on a GPU: one line each, with what to do."""

from iosim.base.errors import IosimError


class GpuError(IosimError):
    """No GPU, no counters, or not enough of something on the chip.

    >>> from pathlib import Path
    >>> from iosim.gpu.reports import replay
    >>> replay(Path("nowhere"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.gpu.errors.GpuError: nowhere holds no record ...
    """


class EmitError(IosimError):
    """A program that has no GPU form as it is.

    >>> import iosim
    >>> from iosim.gpu import emit
    >>> copy = iosim.bind(iosim.algorithm("copy").program, {"n": 2**30}, {"B": 2**22})
    >>> emit(copy)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.gpu.errors.EmitError: buffer x is a block of 4194304 words ...
    """
