"""Makes the builders of made-up worlds importable from every test folder, and asks no test for speed."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS / "worlds"))

# No run fails by chance, by what another run left on this machine, or by a slow machine. Whoever looks for new examples
# runs pytest with --hypothesis-profile=search.
SLOW = [HealthCheck.too_slow]
settings.register_profile("draftmeter", deadline=None, suppress_health_check=SLOW, derandomize=True, database=None)
settings.register_profile("search", deadline=None, suppress_health_check=SLOW, derandomize=False)
settings.load_profile("draftmeter")
