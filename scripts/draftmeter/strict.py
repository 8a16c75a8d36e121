"""The base of every model whose data crosses a boundary, and the one way in which such models are written to disk."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Frozen; an unknown key or a value of another type is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces; the input of every fingerprint."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write to a temporary name beside `path`, then rename: a reader sees the old file, or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    data = content.encode() if isinstance(content, str) else content
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write `value` (a model or plain data) as indented JSON, atomically, in one byte-stable form."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
