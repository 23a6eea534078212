"""One layer of a transformer in PyTorch on a GPU: what runs, what is measured, what it means.

The report `iosim.gpu.reports.layers` plans `cases`, its worker runs `modules` by `tasks`, which
need PyTorch, and the other files read the record without it: `trace` finds the operator of each
kernel, `inductor` and `groups` find what was fused, `launch_counters` adds up counters, `rows`
makes the table.  The report on backward passes uses `launch_counters`, too.  A new model is a
module in `modules`, cases in `cases`, and a graph in `iosim.models.layers`.

Changing files here: code that reads records must read the committed ones in
``experiments/data/gpu``, so keep their keys; ``tests/gpu/test_gpu_layers.py`` reads them all.
Names of cases, variants and classes of kernels are keys of these records.  `modules` defines what
was measured: change it only with a new run.
"""
