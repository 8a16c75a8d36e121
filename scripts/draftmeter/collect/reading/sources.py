"""Read one source of any kind."""

from pathlib import Path

from draftmeter.collect.reading import kinds
from draftmeter.collect.reading.inputs import Input, InputError, find_inputs, open_input
from draftmeter.collect.reading.settings import Settings
from draftmeter.collect.reading.source import Source, unusable


def read_source(path: Path, settings: Settings) -> Source:
    """Read one file (a log or a /metrics text, plain or compressed) or one record; the kind follows from its contents.

    Raises :class:`InputError` for a path that is not there, a folder with several sources or none, and a file that cannot
    be opened. What is in it never raises: `unusable` of the source says why there is nothing to be had.
    """
    inputs = find_inputs([str(path)]).inputs
    if len(inputs) != 1:
        raise InputError(f"{path}: found {len(inputs)} sources in it; expected one file or one record")
    return read_input(inputs[0], settings)


def read_input(item: Input, settings: Settings) -> Source:
    """Read one of what :func:`draftmeter.collect.reading.inputs.find_inputs` found; as :func:`read_source`."""
    if item.kind == kinds.STUDY_RECORD and item.path is not None:
        from draftmeter.collect.reading.records import read_study_record  # noqa: PLC0415  slow to import, needed only here

        return read_study_record(item.name, item.path)
    if item.kind == kinds.WATCHED_RECORD and item.path is not None:
        from draftmeter.collect.reading.records import read_watched_record  # noqa: PLC0415  slow to import, needed only here

        return read_watched_record(item.name, item.path, settings)
    if item.kind == kinds.TABLES:
        return unusable(item.name, "tables that `draftmeter read` wrote; read the files that they came from")
    opened = open_input(item.path)
    if opened.kind == kinds.METRICS:
        from draftmeter.collect.reading.metrics import read_metrics_file  # noqa: PLC0415  slow to import, needed only here

        return read_metrics_file(item.name, opened)
    from draftmeter.collect.reading.logs import read_log_file  # noqa: PLC0415  needed only here

    return read_log_file(item.name, opened, settings)
