"""A bound program as the text of Triton kernels; needs neither Triton nor PyTorch."""
