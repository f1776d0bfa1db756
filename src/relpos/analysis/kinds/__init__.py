"""What `relpos analyze KIND` can draw: a class for each kind, whose arguments are the choices that the papers leave open."""
