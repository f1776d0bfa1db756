"""What `relpos analyze KIND` can draw: one class a kind, whose arguments are the choices that the papers leave open."""
