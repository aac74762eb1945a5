"""Requests that arrive over time: online policies on the replayed engine, and their tails."""
