"""What a run is and what became of it: identity, record, lock, and how it is executed."""
