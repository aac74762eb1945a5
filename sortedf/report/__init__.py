"""Plain data in, tables and pictures out."""
