"""Make a study's model ready for a server and say where it lies: model.json with path, source and revision."""

import json
import re
from pathlib import Path

from draftmeter.models.checkpoint import write_checkpoint
from draftmeter.record.provenance import folder_revision
from draftmeter.strict import write_json
from draftmeter.study.schema import ConfigError, FolderModel, HubModel, Model, Study

_HASH = re.compile(r"[0-9a-f]{40}")


def read_lock(path: Path) -> dict[str, str]:
    """Commit hash by repository; empty where there is no lock. Raises :class:`ConfigError` for a malformed one."""
    if not path.exists():
        return {}
    try:
        lock = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    if not isinstance(lock, dict) or not all(_HASH.fullmatch(str(revision)) for revision in lock.values()):
        raise ConfigError(f"{path}: must map each repository to a commit hash of 40 digits; found {lock!r}")
    return lock


def with_locked_revisions(study: Study, path: Path) -> Study:
    """The study with `unresolved` replaced by what the lock says; what the lock does not know stays unresolved."""
    lock = read_lock(path)
    models = dict(study.models)
    for name, model in models.items():
        if isinstance(model, HubModel) and model.revision == "unresolved":
            models[name] = model.model_copy(update={"revision": lock.get(model.repository, model.revision)})
    return study.model_copy(update={"models": models})


def lock_models(study: Study, path: Path) -> None:
    """Ask the hub for the newest commit of each unresolved model and add it to the lock at `path`."""
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415  not part of the paper environment
    except ImportError as error:
        raise ModelError("looking up revisions needs the package huggingface_hub") from error
    lock = read_lock(path)
    for model in study.models.values():
        if isinstance(model, HubModel) and model.revision == "unresolved":
            found = HfApi().model_info(model.repository).sha
            if found is None or not _HASH.fullmatch(found):
                raise ModelError(f"{model.repository}: the hub names no commit hash; found {found!r}")
            lock[model.repository] = found
    write_json(path, dict(sorted(lock.items())))


class ModelError(ValueError):
    """A model that cannot be served: which one, what was found, what would be right."""


def prepare_model(name: str, model: Model, model_json: Path) -> None:
    """Write the checkpoint (known-answer), check the folder, or fetch the pinned revision; then write `model_json`."""
    if isinstance(model, FolderModel):
        folder = Path(model.path).absolute()
        if not (folder / "config.json").is_file():
            raise ModelError(f"models.{name}.path: {folder} has no config.json; it must be the folder of a checkpoint")
        found = {"source": "folder", "path": str(folder), "revision": folder_revision(folder)}
    elif isinstance(model, HubModel):
        found = {"source": f"hub:{model.repository}", "path": str(_fetch(name, model)), "revision": model.revision}
    else:
        folder = model_json.parent / "checkpoint"
        write_checkpoint(model, folder)
        found = {"source": "known_answer", "path": folder.name, "revision": folder_revision(folder)}
    write_json(model_json, found)


def _fetch(name: str, model: HubModel) -> Path:
    if model.revision == "unresolved":
        raise ModelError(
            f"models.{name}.revision: unresolved; a run measures one exact checkpoint. Put the commit hash of "
            f"{model.repository} that you mean into the config, or write today's into a lock: snakemake ... -- lock_models"
        )
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415  not part of the paper environment
    except ImportError as error:
        raise ModelError(f"models.{name}: fetching {model.repository} needs the package huggingface_hub") from error
    return Path(snapshot_download(model.repository, revision=model.revision))
