"""`python -m autograder COMMAND`, which `python3 run.py COMMAND` runs."""

from autograder.cli import main

main()
