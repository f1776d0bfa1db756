"""Engines: where the runs of a table are executed, and the workers that execute them."""
