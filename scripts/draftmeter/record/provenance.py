"""What has to be known about the machine and the software to read a record years later. Secrets stay out."""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil

from draftmeter.record.run import Revision

# Files above this size are named with their size only: hashing hundreds of gigabytes would cost more than the run.
HASH_LIMIT_BYTES = 50_000_000
# A name that ends in one of these words names a secret: --api-key, HF_TOKEN. (--max-num-batched-tokens does not.)
SECRET_WORDS = ("key", "token", "secret", "password")


def host() -> dict[str, Any]:
    """Processor, memory and operating system; no host name."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
    }


def gpus() -> tuple[list[str], str | None]:
    """Names of the GPUs and the driver's version; an empty list where there is no nvidia-smi."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return [], None
    query = [command, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    rows = [line.split(", ") for line in answer.stdout.splitlines() if ", " in line]
    return [row[0] for row in rows], rows[0][1] if rows else None


def packages() -> dict[str, str]:
    """Name and version of every installed distribution."""
    return dict(sorted((d.metadata["Name"].lower(), d.version) for d in importlib.metadata.distributions() if d.metadata["Name"]))


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit and whether tracked files differ from it; (null, null) outside a repository."""
    git = shutil.which("git")
    if git is None:
        return None, None

    def ask(*arguments: str) -> str | None:
        answer = subprocess.run([git, "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30, check=False)
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    changes = ask("status", "--porcelain", "--untracked-files=no")
    return commit, None if commit is None or changes is None else bool(changes)


def folder_revision(folder: Path) -> str:
    """A sha256 over names, sizes and, for files up to 50 MB, contents of a checkpoint's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = path.stat().st_size
        content = hashlib.sha256(path.read_bytes()).hexdigest() if size <= HASH_LIMIT_BYTES else "-"
        digest.update(f"{path.relative_to(folder)} {size} {content}\n".encode())
    return digest.hexdigest()


def model_revision(name: str, model_json: Path) -> tuple[str, Revision]:
    """The path that the server loads and the revision, as the models stage wrote them into model.json."""
    found = json.loads(model_json.read_text())
    path = found["path"] if Path(found["path"]).is_absolute() else str(model_json.parent / found["path"])
    revision = found["revision"]
    if found["source"] == "folder" and folder_revision(Path(path)) != revision:
        raise ValueError(f"{model_json}: the files in {path} have changed since; delete {model_json} to measure the new ones")
    return path, Revision(
        name=name, source=found["source"], revision=revision, tokenizer_revision=revision, draft_revision=revision
    )


def is_secret(name: str) -> bool:
    """Whether an argument or a variable of this name holds a secret."""
    return name.lower().replace("_", "-").split("-")[-1] in SECRET_WORDS


def redacted(command: list[str]) -> list[str]:
    """The command line without the values of arguments whose name says that they are secret."""
    shown: list[str] = []
    for part in command:
        before = shown[-1] if shown else ""
        if "=" in part and is_secret(part.partition("=")[0]):
            shown.append(f"{part.partition('=')[0]}=<redacted>")
        elif before.startswith("--") and is_secret(before) and not part.startswith("--"):
            shown.append("<redacted>")
        else:
            shown.append(part)
    return shown


def redacted_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment without the values of variables whose name says that they are secret."""
    return {name: "<redacted>" if is_secret(name) else value for name, value in sorted(environment.items())}


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
