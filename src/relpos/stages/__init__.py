"""The stages of runs, a class and a file each, which is loaded when a run of the stage is made. A new
one is a new file, and its name here."""

FILES = {
    "toy": "toy",
    "tokenizer": "tokenizer",
    "store": "store",
    "pretrain": "pretrain",
    "finetune": "finetune",
    "given": "given",
    "order": "measure",
}
"""Name of a stage → its file."""
