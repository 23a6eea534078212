"""The core: problems, programs and what reads them (formulas, the machine, tiles, traces)."""
