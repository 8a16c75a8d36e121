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

from draftmeter.record.run import Gpu, Revision

# Files above this size are named with their size only: hashing hundreds of gigabytes would cost more than the run.
HASH_LIMIT_BYTES = 50_000_000
TOKENIZER_FILES = (
    *("added_tokens.json", "merges.txt", "special_tokens_map.json", "tekken.json", "tokenizer.json", "tokenizer.model"),
    *("tokenizer_config.json", "vocab.json"),
)
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


def gpus(visible: str | None) -> tuple[list[Gpu], str | None]:
    """The GPUs among those `visible` (CUDA_VISIBLE_DEVICES; null: all) and the driver's version.

    Empty where there is no nvidia-smi. Numbers are taken in the order of nvidia-smi, that of the
    bus; the memory of slices of a GPU (MIG) is not known.
    """
    command = shutil.which("nvidia-smi")
    if command is None:
        return [], None
    query = [command, "--query-gpu=name,uuid,memory.total,driver_version", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    rows = [line.split(", ") for line in answer.stdout.splitlines() if line.count(", ") == 3]
    found = [Gpu(name=name, uuid=uuid, memory_mib=int(mib) if mib.isdigit() else None) for name, uuid, mib, _ in rows]
    return found if visible is None else _visible(found, visible), rows[0][3] if rows else None


def _visible(found: list[Gpu], names: str) -> list[Gpu]:
    """As CUDA reads the variable: up to the first name that is no GPU."""
    chosen: list[Gpu] = []
    for name in filter(None, map(str.strip, names.split(","))):
        if name.startswith("MIG-"):
            chosen.append(Gpu(name="MIG slice", uuid=name, memory_mib=None))
            continue
        same = [
            gpu
            for number, gpu in enumerate(found)
            if name == str(number) or (name.startswith("GPU-") and gpu.uuid.startswith(name))
        ]
        if not same:
            break
        chosen.append(same[0])
    return chosen


def container() -> str:
    """The image of the container that this process runs in; `none` outside of one."""
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if image := os.environ.get(name):
            return image
    if Path("/run/.containerenv").exists():
        return "podman, image unknown"
    if Path("/.dockerenv").exists():
        return "docker, image unknown"
    kind = os.environ.get("container")  # noqa: SIM112  spelled so
    return f"{kind}, image unknown" if kind else "none"


def chat_template_sha256(folder: Path, given: str | None = None) -> str | None:
    """The sha256 of the text of a model's chat template, or of the file `given` in its place; null
    if there is none.

    A template has one hash, whether it lies in chat_template.jinja or in tokenizer_config.json.
    """
    try:
        text = _chat_template(folder, given)
    except (OSError, ValueError):  # the server says it better, if it needs one
        return None
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def _chat_template(folder: Path, given: str | None) -> str | None:
    if given is not None:
        return Path(given).read_text() if Path(given).is_file() else given
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text()
    if not (folder / "tokenizer_config.json").is_file():
        return None
    found = json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template")
    return found if found is None or isinstance(found, str) else json.dumps(found, sort_keys=True)


def tokenizer_sha256(folder: Path) -> str | None:
    """A sha256 over names and contents of a tokenizer's files; null if there are none."""
    files = [path for name in TOKENIZER_FILES if (path := folder / name).is_file()]
    if not files:
        return None
    lines = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


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
