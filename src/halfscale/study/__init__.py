"""What to run: the config, its expansion into runs, and the records they leave. No torch here."""
