"""This machine: its devices and where results come from. Imports nothing of ours."""
