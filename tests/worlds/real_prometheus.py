"""A real Prometheus server on the loopback interface, for as long as a test needs it."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest


@contextmanager
def prometheus(folder: Path, ports: list[int]) -> Iterator[str]:
    """The address of a Prometheus server that scrapes these ports every second."""
    program = shutil.which("prometheus")
    if program is None:
        reason = "no prometheus on the PATH; it is in Debian's package prometheus"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    targets = [f"127.0.0.1:{port}" for port in ports]
    job = {"job_name": "vllm", "scrape_interval": "1s", "static_configs": [{"targets": targets, "labels": {"rack": "r1"}}]}
    config = json.dumps({"scrape_configs": [{**job, "scrape_timeout": "1s"}]})
    (folder / "prometheus.yml").write_text(config)
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *arguments, "--log.level=warn"], stdout=log, stderr=log, cwd=folder)
    try:
        url = f"http://{address}"
        wait_for(lambda: is_ready(url), 15, f"Prometheus is not ready: {(folder / 'prometheus.log').read_text()}")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=1) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def wait_for(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
