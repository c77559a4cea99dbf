"""`python -m weakspots.cli` is the command `weakspots`, for launchers that start modules."""

import sys

from weakspots.cli.main import main

sys.exit(main())
