"""Measuring what the program promises: each group of measurements is a file, its result is JSON."""
