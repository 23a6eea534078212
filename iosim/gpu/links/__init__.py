"""Several GPUs: one process for each runs a schedule of `iosim.devices`; NVLink's bytes are read.

The report `iosim.gpu.reports.devices` plans `cases`; its worker calls `tasks`, which starts `rank`
in a process for each GPU; `execute` is the schedule on one device, and `nvlink` reads counters.  An
operation that a schedule uses for the first time needs its PyTorch form in `execute`.

Changing files here: outputs are compared with those of one device, on CPUs as well
(``tests/gpu/test_gpu_links.py``), so `execute` can be tested without a GPU.  The command line of
`rank` is private.  Specs and results travel as JSON and are in committed records: add keys, and
rename none.  Import torch only inside functions.
"""
