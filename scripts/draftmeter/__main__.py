"""`python -m draftmeter` is the command `draftmeter`."""

import sys

from draftmeter.cli import main

sys.exit(main())
