"""Modules that an exported folder has in place of ours, under the same names: it is opened without
our libraries."""
