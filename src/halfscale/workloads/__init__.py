"""Models and data, one file each, found by name. Importing this package imports no torch."""
