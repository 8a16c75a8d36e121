"""Making models ready: what is written, what is refused, and the lock of revisions."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from safetensors.numpy import load_file

from draftmeter.models.checkpoint import BYTES, HIDDEN, group_tokens
from draftmeter.models.known_answer import build_chain
from draftmeter.models.prepare import ModelError, lock_models, prepare_model, read_lock, with_locked_revisions
from draftmeter.study.config import read_study
from draftmeter.study.schema import ConfigError, FolderModel, HubModel, KnownAnswerModel

CONFIGS = Path(__file__).parents[2] / "config"
H200 = read_study(CONFIGS / "h200.yaml")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_checkpoint_serves_the_chain_and_is_the_same_each_time(tmp_path: Path) -> None:
    model = read_study(CONFIGS / "calibration.yaml").models["known-answer"]
    assert isinstance(model, KnownAnswerModel)
    for name in ("a", "b"):
        prepare_model("known-answer", model, tmp_path / name / "model.json")
    files = sorted(path.name for path in (tmp_path / "a" / "checkpoint").iterdir())
    assert files == ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for name in files:
        assert (tmp_path / "a" / "checkpoint" / name).read_bytes() == (tmp_path / "b" / "checkpoint" / name).read_bytes()
    weights = load_file(tmp_path / "a" / "checkpoint" / "model.safetensors")
    hidden = weights["model.embed_tokens.weight"] * np.sqrt(HIDDEN)
    logits = hidden @ weights["lm_head.weight"].T
    for group in model.groups:
        start, ids = group_tokens(model, group)
        chain = build_chain(model, group)
        for rows, expected in (([start], chain.start[None, :]), (ids, chain.matrix)):
            odds = np.exp(logits[rows] / model.temperature)
            served = odds / odds.sum(axis=1, keepdims=True)
            assert np.allclose(served[:, ids], expected, atol=1e-6)
    assert len(json.loads((tmp_path / "a" / "checkpoint" / "tokenizer.json").read_text())["model"]["vocab"]) == BYTES


def test_a_folder_is_checked_and_named_by_its_contents(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json; it must be the folder of a checkpoint"):
        prepare_model("mine", FolderModel(source="folder", path=str(tmp_path / "none")), tmp_path / "model.json")
    (tmp_path / "config.json").write_text("{}")
    revisions = []
    for content in ("{}", "{ }"):
        (tmp_path / "config.json").write_text(content)
        prepare_model("mine", FolderModel(source="folder", path=str(tmp_path)), tmp_path / "out" / "model.json")
        revisions.append(json.loads((tmp_path / "out" / "model.json").read_text())["revision"])
        (tmp_path / "out" / "model.json").unlink()
    assert revisions[0] != revisions[1]


def test_an_unresolved_revision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"models\.production\.revision: unresolved"):
        prepare_model("production", H200.models["production"], tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


class Hub(BaseHTTPRequestHandler):
    """Answers every question for a model with one commit."""

    def do_GET(self) -> None:
        body = json.dumps({"id": "x/y", "sha": COMMIT, "siblings": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    real = huggingface_hub.HfApi
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: real(endpoint=address, token=False))
    yield
    server.shutdown()
    server.server_close()


def test_the_lock_resolves_what_the_config_leaves_open(hub: None, tmp_path: Path) -> None:
    lock = tmp_path / "models.lock.json"
    assert with_locked_revisions(H200, lock) == H200
    lock_models(H200, lock)
    assert set(read_lock(lock)) == {"Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.6-35B-A3B-FP8"}
    locked = with_locked_revisions(H200, lock).models["production"]
    assert isinstance(locked, HubModel) and locked.revision == COMMIT


def test_a_lock_never_overrides_a_pinned_revision(tmp_path: Path) -> None:
    lock = tmp_path / "models.lock.json"
    lock.write_text(json.dumps({"Qwen/Qwen3.6-35B-A3B": COMMIT}))
    pinned = HubModel(source="hub", repository="Qwen/Qwen3.6-35B-A3B", revision="f" * 40)
    study = H200.model_copy(update={"models": {**H200.models, "production": pinned}})
    assert with_locked_revisions(study, lock).models["production"] == pinned


@pytest.mark.parametrize("text", ["{", "[]", '{"x/y": "main"}'])
def test_a_malformed_lock_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "models.lock.json").write_text(text)
    with pytest.raises(ConfigError, match=r"models\.lock\.json: "):
        read_lock(tmp_path / "models.lock.json")
