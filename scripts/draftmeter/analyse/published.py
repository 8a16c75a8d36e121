"""The published study's figures and claims, as the data file of the project gives them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from draftmeter.analyse.facts import AnalysisError


@dataclass(frozen=True)
class Published:
    """What the file says, every number as the text that was printed."""

    path: str
    content: dict[str, Any]

    @property
    def claims(self) -> dict[str, dict[str, str]]:
        """By name: its `figure`, `region`, and `margin` where that is not the published study's."""
        claims: dict[str, dict[str, str]] = self.content["claims"]
        return claims

    def figures(self, *keys: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """The printed numbers below a place in the file, with the rest of their keys; a list has the keys "1", "2", ...

        Raises :class:`AnalysisError` where the file has no such place.
        """
        place: Any = self.content
        for depth, key in enumerate(keys, start=1):
            if not isinstance(place, dict) or key not in place:
                raise AnalysisError(f"{self.path}: no key {'.'.join(keys[:depth])}, whose figures a study is compared with")
            place = place[key]
        yield from _leaves(place, ())


def read_published(path: Path) -> Published:
    """Read published.yaml; raise :class:`AnalysisError` with the file's name when it is not what it should be."""
    try:
        # The base loader leaves numbers as they are printed: 0.660 has three digits.
        content = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    except (OSError, yaml.YAMLError) as error:
        raise AnalysisError(f"{path}: cannot be read as YAML: {error}") from error
    missing = [key for key in ("production", "controlled", "claims") if key not in (content or {})]
    if missing:
        raise AnalysisError(f"{path}: no key {', '.join(missing)}; it holds the published study's figures and claims")
    return Published(str(path), content)


def _leaves(place: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(place, dict):
        for key, below in place.items():
            yield from _leaves(below, (*keys, str(key)))
    elif isinstance(place, list):
        for number, below in enumerate(place, start=1):
            yield from _leaves(below, (*keys, str(number)))
    else:
        yield keys, str(place)
