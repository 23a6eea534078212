"""Names of kernels, as profilers write them."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def function(name: str) -> str:
    """A kernel's function, without namespaces, arguments and those of templates.

    >>> function("void at::native::(anonymous namespace)::softmax<c10::Half, 2>(c10::Half*, int)")
    'softmax'
    >>> function("cuda::<unnamed>::spin_kernel(long)"), function("gemm_64x64")
    ('spin_kernel', 'gemm_64x64')
    """
    plain = name.replace("(anonymous namespace)", "").replace("<unnamed>", "")
    for sign in "<(":
        plain = plain.partition(sign)[0]
    return plain.split("::")[-1].split(" ")[-1] or name
