"""`python -m weakspots.cli` is the command `weakspots`, for launchers that start modules."""

import sys

from weakspots.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
