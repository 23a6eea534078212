"""Reports: tables and verdicts from records, the same after a run and in a replay."""
