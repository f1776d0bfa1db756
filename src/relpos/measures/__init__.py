"""What is measured of a network, once; tables, figures, claims and model cards read it."""
