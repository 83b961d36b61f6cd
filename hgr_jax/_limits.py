"""Limits that the command line tells without loading JAX."""

MAX_DEGREE = 50
"""Largest degree in a scan and in the command line."""
