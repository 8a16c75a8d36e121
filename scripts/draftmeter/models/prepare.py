"""Make a study's model ready for a server and say where it lies: model.json with path, source and revision."""

from pathlib import Path

from draftmeter.models.checkpoint import write_checkpoint
from draftmeter.record.provenance import folder_revision
from draftmeter.strict import write_json
from draftmeter.study.schema import FolderModel, HubModel, Model


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
