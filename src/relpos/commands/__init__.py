"""Subcommands, one per file: `relpos NAME` composes `conf/NAME.yaml` and calls the function NAME of
the file of that name."""
