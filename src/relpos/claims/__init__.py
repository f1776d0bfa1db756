"""What the papers claim, as data, and the tests that decide it with the runs there are."""
