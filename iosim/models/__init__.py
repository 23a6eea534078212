"""Models of several operators: their words, their fusion, and their time on a machine."""
