"""`python -m inweave` is the command `inweave`."""

import sys

from inweave.cli import main

sys.exit(main())
