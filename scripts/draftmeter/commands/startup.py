"""A short start: pyarrow without pandas."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Absent(MetaPathFinder):
    """Makes one module look as if it were not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuse the module, leave every other one to the next finder."""
        del path, target
        if name == self._name:
            raise ModuleNotFoundError(f"{name} is left out for now", name=name)
        return None


def load_pyarrow_alone() -> None:
    """Import pyarrow, and let it look for pandas in vain: it would import it on first use, which takes half a second.

    Afterwards pandas can be imported as usual; only pyarrow goes on without it, unless it is asked for a data frame. This
    is for a process of its own, in which nothing handed to pyarrow can be an object of pandas.
    """
    if "pandas" in sys.modules:
        return
    absent = _Absent("pandas")
    sys.meta_path.insert(0, absent)
    try:
        import pyarrow as pa  # noqa: PLC0415  that is the point

        pa.scalar(0)
    finally:
        sys.meta_path.remove(absent)
