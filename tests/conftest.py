"""Makes the tests' own builders importable from every test folder."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS / "unit"), str(TESTS / "end_to_end")]
