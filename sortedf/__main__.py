"""`python -m sortedf`."""

from sortedf.cli.main import run

run()
