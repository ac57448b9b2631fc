"""`python -m halfscale` is the halfscale command."""

from halfscale.cli import main

main()
