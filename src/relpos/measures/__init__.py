"""What a network knows, measured once and kept in the folder of its run; `relpos order` and the columns of tables read it."""
