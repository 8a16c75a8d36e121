"""Makes the tests' own builders importable from every test folder, and asks no test for speed."""

import os
import sys
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS / "unit"), str(TESTS / "end_to_end")]

# A landing does not fail by chance: new examples are for whoever runs the tests by hand.
settings.register_profile("draftmeter", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("draftmeter")
