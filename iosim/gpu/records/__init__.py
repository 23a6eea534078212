"""Records: folders that hold what one run was to do, measured and counted, and where it came from.

`iosim.gpu.reports.runner` and the worker write them; reports, `iosim.gpu.profiling` and the lab
read them, without a GPU.  `record` reads a folder, `counters` the CSV of Nsight Compute, `plain`
checks JSON against types, `checksums` finds files that were changed, `names` parses kernels' names.

Changing files here: the committed records (``experiments/data/gpu``) can't be measured again on
demand.  So every key and file name stays readable, and a new key has a default for old records.
Checksums cover the bytes that were measured: never edit a record.
``tests/gpu/test_record_checksums.py`` and ``tests/gpu/test_gpu_records.py`` read all of them.  No
PyTorch here.
"""
