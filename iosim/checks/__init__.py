"""Checks of the whole: the main job, tightness, proofs that run, experiments made again."""
