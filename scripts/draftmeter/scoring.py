"""Whether a reply is right, where a prompt has one right reply."""

import re

THINKING_ENDS = "</think>"


def is_right(reply: str, right: str) -> bool:
    """Whether `reply`, its thinking part left out, begins with what the right reply says; spaces and a last full stop aside."""
    said = " ".join(reply.rsplit(THINKING_ENDS, maxsplit=1)[-1].split())
    wanted = " ".join(right.split()).rstrip(".")
    return re.match(rf"{re.escape(wanted)}(?!\w)", said) is not None
