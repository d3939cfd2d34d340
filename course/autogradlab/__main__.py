"""The learners' commands: `python -m autogradlab lab` and `python -m autogradlab progress`."""

import sys

from autogradlab import lab, overview

COMMANDS = {"lab": lab.main, "progress": overview.main}

if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command not in COMMANDS:
        print(f"usage: python -m autogradlab {'|'.join(COMMANDS)} [OPTION ...]", file=sys.stderr)
        sys.exit(2)
    sys.exit(COMMANDS[command](sys.argv[2:]))
