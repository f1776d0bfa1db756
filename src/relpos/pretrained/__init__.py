"""Published checkpoints: folders as `transformers` writes them, read and written without it.

A family is a file with one description, see `family.py`; a new one is such a file and its name in
`families.py`. `files.py` does not import torch, so that planning does not wait for it.
"""
