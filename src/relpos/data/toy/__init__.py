"""A small generated language with a corpus and all GLUE tasks, some decided by word order and some
not."""

from relpos.data.toy.write import FOLDERS, VERSION, write

__all__ = ["FOLDERS", "VERSION", "write"]
