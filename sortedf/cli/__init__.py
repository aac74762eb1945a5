"""The command line: one file a command. Data on stdout; progress, notes and errors on stderr."""
