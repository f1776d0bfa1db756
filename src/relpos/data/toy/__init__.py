"""A small generated language with a corpus and all GLUE tasks, some decided by word order and some not."""

from relpos.data.toy.write import VERSION, write

__all__ = ["VERSION", "write"]
