"""Runs emitted kernels: on a GPU through PyTorch, or on a CPU in Triton's interpreter.

`job` says what to run, as JSON; `worker` is the process that does it
(``python -m iosim.gpu.run.worker``), started by `profiler` with or without Nsight Compute; `tasks`
measures, `launch` launches kernels in order, `cuda` and `interpreter` are the two devices, `memory`
has padded tensors, `requirements` says what a machine lacks.  Reports, layers, links and
`iosim.gpu.interpret` call it.  `baselines` and `reference` are PyTorch's attention, to compare
with.

Changing files here: fields of `Job` are in committed specs, so a new one needs a default.  The
order of launches and the contents of padding are part of what was counted.  `requirements` must
work without importing PyTorch.  Tests on a CPU (``tests/gpu/test_gpu_interpreter.py``) check
outputs and words; timing and counters can only be checked on a GPU.
"""
