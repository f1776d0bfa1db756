"""The stages of runs, a class and a file each; a new one is a new file, and its name in this
list."""

from relpos.stages import finetune, given, measure, pretrain, store, tokenizer, toy

__all__ = ["finetune", "given", "measure", "pretrain", "store", "tokenizer", "toy"]
