"""Closed forms of a program: words and peaks on numbers, in arrays and as symbols."""
