"""``python -m graphc``: the command line."""

import sys

from graphc.cli import main

if __name__ == "__main__":
    sys.exit(main())
