"""Measuring: a spec in, files out."""
