"""`python -m gonogo`."""

from gonogo.cli import main

main()
