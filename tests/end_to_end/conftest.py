"""The one study that the end-to-end tests look at: measured once, on a real vLLM server."""

from pathlib import Path

import pytest

from study_run import snakemake, write_config


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished default study, a tenth of its size."""
    folder = tmp_path_factory.mktemp("study")
    write_config(folder, {"study/scale": 0.1}, "config.yaml")
    answer = snakemake(folder)
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-6000:]
    return folder
