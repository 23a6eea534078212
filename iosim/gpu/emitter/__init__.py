"""Emits a bound program as the text of Triton kernels, or of Gluon kernels for Hopper.

`iosim.gpu.emit` and ``iosim gpu emit`` go through `iosim.gpu.targets` to `kernels` (Triton) or
`hopper` (Gluon).  `nests` splits a program into kernels, `nest` writes one, `blocks` writes tiles
and addresses, `layout` says how tensors are padded and which sectors a transfer touches, and
`order` says where barriers are needed.  A new operation has its template in its record in
`iosim.core.program.ops`; a program without a GPU form raises EmitError with the reason.

Changing files here: nothing may import Triton or PyTorch.  The text is golden
(``tests/golden/gpu``, written again by ``pytest --update-golden``): review each difference.  A
kernel must compute the right outputs and move exactly the model's words, which Triton's interpreter
checks (``tests/gpu/test_gpu_interpreter.py``) and ``tests/kernel/test_emitted.py`` reads back from
the IR.  `layout` decides predicted bytes, with which recorded counters are compared.
"""
