"""Makes the builders of made-up worlds importable from every test folder, and asks no test for speed."""

import os
import sys
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS / "worlds"))

# A landing does not fail by chance: new examples are for whoever runs the tests by hand.
settings.register_profile("draftmeter", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("draftmeter")
