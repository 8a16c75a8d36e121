"""What a vLLM server says about itself while it starts."""

import re
from dataclasses import dataclass

_VERSION = re.compile(r"\bversion (\d+\.\d+\S*)")
_ENGINE = re.compile(r"Initializing a V\d+ LLM engine \(v([^)]+)\)")
_BACKEND = re.compile(r"Using (?:the )?([A-Za-z0-9_]+) (?:attention )?backend|Using AttentionBackendEnum\.(\w+) backend")
_CORRECTION = re.compile(r"draftmeter: correction (\S+) is active")


@dataclass(frozen=True)
class Startup:
    """Facts from a server's log; null where the log does not say."""

    engine_version: str | None
    attention_backend: str | None
    corrections: list[str]


def read_startup(log: str) -> Startup:
    """Read the start of a server's log (its text until the first statistics line is enough)."""
    version = _ENGINE.search(log) or _VERSION.search(log)
    backend = _BACKEND.search(log)
    return Startup(
        engine_version=version.group(1) if version else None,
        attention_backend=next((name for name in backend.groups() if name), None) if backend else None,
        corrections=sorted(set(_CORRECTION.findall(log))),
    )
