"""Records of runs, and the hardware counters in them."""
