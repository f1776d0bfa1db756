"""What finished runs measured: every number read once, what may be compared, and the statistics of
differences."""
