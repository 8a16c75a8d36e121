"""How a number is printed, by its unit and its name: the note and the terminal print alike."""

import re

POINTS = "percentage points"
PERCENT = 100.0
# Printed digits after the point; fractions and relative numbers are printed as percentages.
DIGITS = {
    "fraction": 1,
    "relative": 2,
    POINTS: 1,
    "tokens": 2,
    "tokens per step": 2,
    "ratio": 1,
    "times": 2,
    "correlation": 2,
    "p value": 3,
    "AIC": 1,
}
AS_PERCENTAGE = {"fraction", "relative"}
SIGNED = {"relative", "correlation"}
# Differences: their sign is half of what they say, whatever their unit.
_SIGNED_NAME = re.compile(r"(^|_)(rise|slope|minus|difference|gap|error)(_|$)")


def is_signed(name: str, unit: str) -> bool:
    """Whether a quantity is printed with its sign, a plus included."""
    return unit in SIGNED or _SIGNED_NAME.search(name) is not None
