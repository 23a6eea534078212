"""Layers and whole models as graphs of operators, forward and backward, and the words they move.

`graph` has the `Graph`; `bert`, `gpt2`, `llama` and `mixture` write the layers of each family with
`blocks`; `backward` derives gradients; `models` has published sizes, `workload` how often each part
runs; `traffic` counts words at a boundary.  `files` and `config_file` read a user's graphs and
models, and `torch_export` with `aten`, `aten_rows` and `lowering` translates PyTorch modules.
``iosim graph``, `iosim.models.fusion` and `iosim.models.roofline` call them.  A family is one file
and lines in `architectures`.

Changing files here: a layer must compute what ``tests/layers_by_hand.py`` computes, and its
gradients what finite differences and PyTorch give (``tests/models/test_layers.py``,
``test_layers_torch.py``).  Names of operators and tensors are in recorded fusions, GPU records and
users' JSON files, so renaming one breaks them.  Each published size has a source.  PyTorch is
imported in `torch_export` only when called.
"""
