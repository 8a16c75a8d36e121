"""The table of servers: properties down, servers across, and what stored files do not say."""

from dataclasses import dataclass
from typing import Any

from draftmeter.render.facts import Facts
from draftmeter.render.numbers import plain

NAMES = {
    "source": "Read from",
    "model": "Model",
    "precision": "Precision",
    "method": "Draft method",
    "k": "Draft tokens per step",
    "engine_version": "Engine version",
    "attention_backend": "Attention backend",
    "log_interval_s": "Log interval (s)",
    "corrections": "Corrections active",
    "starts": "Starts",
    "attempts": "Boots that took several attempts",
    "processor": "Kind of processor",
    "hardware": "Hardware",
    "driver": "Driver",
    "model_revision": "Model revision",
    "git_commit": "Commit of the instrument",
}


@dataclass(frozen=True)
class SetupTable:
    """Rows of (key, name, one text a server), and the names of properties that no file says."""

    rows: list[tuple[str, str, list[str]]]
    unsaid: list[str]


def build_setup_table(facts: Facts) -> SetupTable:
    """A property beyond the contract is shown under its own key.

    Where there are stored files alone, properties that none of them says are left out, and come as a list of their own.
    """
    servers = [row.model_dump() for row in facts.setup]
    found = {key for server in servers for key in server} - {"server"}
    stored = [server["source"] is not None for server in servers]
    if not any(stored):
        found -= {"source"}
    unsaid = {key for key in found if all(stored) and all(server[key] in (None, []) for server in servers)}
    servers = [server | {"source": server["source"] or "its records"} for server in servers]
    # Of a server that makes no drafts that is no number.
    servers = [server | {"k": "none" if server["k"] == 0 else server["k"]} for server in servers]
    keys = [key for key in NAMES if key in found - unsaid] + sorted(found - unsaid - set(NAMES))
    rows = [(key, NAMES.get(key, key), [_text(server.get(key)) for server in servers]) for key in keys]
    return SetupTable(rows, [NAMES[key].lower() for key in NAMES if key in unsaid - {"attempts", "git_commit"}])


def _text(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plain(value)
    return str(value)
