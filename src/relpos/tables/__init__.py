"""An experiment file → its plan → its numbers."""
