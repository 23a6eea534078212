"""What can be missing or too small on a GPU: one line each, with what to do."""

from iosim.errors import IosimError


class GpuError(IosimError):
    """No GPU, no counters, or not enough of something on the chip."""
