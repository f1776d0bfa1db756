"""What is measured of a network, once, and kept in the folder of its run; tables, figures, claims
and model cards read it."""
