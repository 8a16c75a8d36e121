"""Makes the tests' own builders importable from every test folder, and asks no test for speed."""

import sys
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS / "unit"), str(TESTS / "end_to_end")]

settings.register_profile("draftmeter", deadline=None)
settings.load_profile("draftmeter")
