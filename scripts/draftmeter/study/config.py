"""From a config file, or plain data, to a study that measures or an archive of stored records: whole and fitting, or refused."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from draftmeter.strict import Strict
from draftmeter.study.archive import Archive
from draftmeter.study.rules import problems
from draftmeter.study.schema import ConfigError, Study

Config = TypeVar("Config", bound=Strict)
UNUSABLE = "the config is not usable:"


def parse_config(config: dict[str, Any]) -> Study | Archive:
    """Validate a config given as plain data: an archive has `sources`, a study has `servers`."""
    if "sources" in config and "servers" not in config:
        return validated(Archive, config)
    if "servers" not in config:
        raise ConfigError("the config is not usable:\n  found neither servers (a study that measures) nor sources (an archive)")
    return parse_study(config)


def read_config(path: Path) -> Study | Archive:
    """Read and validate a config file of either kind."""
    return parse_config(read_yaml(path))


def parse_study(config: dict[str, Any]) -> Study:
    """Validate a config given as plain data; raise :class:`ConfigError` with one line for each wrong key."""
    study = validated(Study, config)
    if found := problems(study):
        raise ConfigError("\n  ".join([UNUSABLE, *found]))
    return study


def validated(model: type[Config], config: dict[str, Any]) -> Config:
    """`config` as a `model`; raise :class:`ConfigError` with one line for each wrong key."""
    try:
        return model.model_validate(config)
    except ValidationError as error:
        raise ConfigError("\n".join([UNUSABLE, *map(_describe, error.errors())])) from error


def read_study(path: Path) -> Study:
    """Read and validate a config file."""
    return parse_study(read_yaml(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """A config file as plain data; raise :class:`ConfigError` for one that cannot be read or is no mapping."""
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: found {type(config).__name__}; a config is a mapping of keys")
    return config


def _describe(error: Any) -> str:
    """One line: the key, what is wrong or right, what was found."""
    key = ".".join(str(part) for part in error["loc"]) or "config"
    if error["type"] == "extra_forbidden":
        return f"  {key}: unknown key; see config/README.md for the keys there are"
    if error["type"] == "missing":
        return f"  {key}: missing; every key must be given, a config is one complete file"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"  {message}"
    return f"  {key}: {message[0].lower()}{message[1:]}; found {error['input']!r}"
