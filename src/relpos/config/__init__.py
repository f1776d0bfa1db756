"""A command and its overrides → a checked configuration; its help."""
