"""One measure in each file: what it measures, how a column reads it, how it is drawn."""
