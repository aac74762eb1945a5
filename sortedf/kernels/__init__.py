"""Compiled loops: arrays in, arrays out. They know nothing of requests, files or names."""
