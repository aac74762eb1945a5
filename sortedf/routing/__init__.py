"""Which instance: requests that arrive over time, sent to one of several engines."""
