"""A small generated language with a corpus and all GLUE tasks, some decided by word order and some
not."""

VERSION = 1
"""Raised when the written bytes change: it stands in the identity of every run on this data."""
