"""Running emitted kernels: on a GPU, or on a CPU in Triton's interpreter."""
