"""Before `make` installs torch: say which build pip would take, for one for CUDA is gigabytes that a CPU never uses.

Usage: size_of_torch.py torch==2.13.0
"""

import json
import subprocess
import sys
from typing import Any

# Without wheels of the libraries themselves: what pip names beside a build of torch for CUDA.
CUDA_LIBRARIES = ("nvidia-", "cuda-", "triton")


def planned(requirement: str) -> list[dict[str, Any]]:
    """What pip would install for `requirement`, from its own report; empty where pip cannot say."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-", requirement]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if answer.returncode != 0:
        return []
    found: list[dict[str, Any]] = json.loads(answer.stdout)["install"]
    return found


def words(install: list[dict[str, Any]]) -> str:
    """One line or two for whoever waits."""
    torch = [one["metadata"]["version"] for one in install if one["metadata"]["name"] == "torch"]
    cuda = [one for one in install if one["metadata"]["name"].startswith(CUDA_LIBRARIES)]
    if not torch:
        return "torch: already there, or pip cannot say what it would take"
    if not cuda:
        return f"torch {torch[0]}: a build without CUDA (about 200 MB to download, 800 MB on disk)"
    return (
        f"torch {torch[0]}: pip finds a build for CUDA, with {len(cuda)} libraries (about 3 GB to download, 5 GB on disk).\n"
        "The study needs none of them on a CPU. To leave them out, stop here (Ctrl-C) and point pip at the index\n"
        "of PyTorch's CPU builds first: PIP_EXTRA_INDEX_URL=... make"
    )


if __name__ == "__main__":
    print(words(planned(sys.argv[1])), flush=True)
