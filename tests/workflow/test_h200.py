"""The H200 study cannot run here; that vLLM's own argument parser takes its servers' arguments can be shown."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from draftmeter.measure.server import server_command
from draftmeter.study.config import parse_study, read_study
from draftmeter.study.plan import plan_boot

CONFIGS = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module")
def parser() -> Any:
    arguments = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    parsers = importlib.import_module("vllm.utils.argparse_utils")
    return arguments.make_arg_parser(parsers.FlexibleArgumentParser())


SERVERS = [
    (config, server)
    for config in ("config.yaml", "calibration.yaml", "h200.yaml")
    for server in read_study(CONFIGS / config).servers
]


@pytest.mark.parametrize(("config", "server"), SERVERS)
def test_the_server_arguments_are_accepted_by_vllm(parser: Any, config: str, server: str) -> None:
    plan = plan_boot(read_study(CONFIGS / config), server, "boot-1")
    command = server_command(plan, "some/model", 8000)
    parsed = parser.parse_args(command[command.index("--model") :])
    assert parsed.model == "some/model"
    baseline = plan.server.speculative is None
    assert parsed.speculative_config == (None if baseline else {"method": "mtp", "num_speculative_tokens": 3})
    assert baseline or parsed.per_request_spec_decode_metrics == "detailed"
    assert parsed.max_model_len == plan.server.arguments["max-model-len"]


def test_an_argument_that_vllm_does_not_know_is_noticed(parser: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["--model", "m", "--max-model-length-of-all", "8"])
    assert "unrecognized arguments" in capsys.readouterr().err


def refused_by_vllm(speculative: dict[str, Any]) -> set[str]:
    """What vLLM says against keys and values themselves; what only a loaded model could tell is left out."""
    config = importlib.import_module("vllm.config.speculative")
    try:
        config.SpeculativeConfig(**speculative)
    except ValidationError as error:
        return {found["type"] for found in error.errors()} - {"value_error", "assertion_error"}
    except (ImportError, AttributeError):
        # Keys and values were taken: now a package of the method is missing, or the target model is.
        return set()
    return set()


@pytest.mark.parametrize(
    "speculative",
    [
        {"method": "mtp", "num_speculative_tokens": 1},
        {"method": "mtp", "num_speculative_tokens": 20},
        {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
        {"method": "suffix", "num_speculative_tokens": None, "suffix_decoding_max_tree_depth": 8},
        {"method": "draft_model", "num_speculative_tokens": 3, "model": "known-answer", "draft_tensor_parallel_size": 1},
        {"method": "eagle3", "num_speculative_tokens": 3, "model": "known-answer"},
    ],
)
def test_every_method_goes_to_vllm_with_its_own_keys(parser: Any, speculative: dict[str, Any]) -> None:
    config = yaml.safe_load((CONFIGS / "config.yaml").read_text())
    config["servers"]["controlled"]["speculative"] = speculative
    plan = plan_boot(parse_study(config), "controlled", "boot-1")
    command = server_command(plan, "some/model", 8000, "a/draft" if "model" in speculative else None)
    parsed = parser.parse_args(command[command.index("--model") :]).speculative_config
    given = {key: value for key, value in speculative.items() if value is not None}
    assert parsed == (given | {"model": "a/draft"} if "model" in given else given)
    assert refused_by_vllm(parsed) == set()


def test_a_method_or_key_that_vllm_does_not_know_is_noticed() -> None:
    assert refused_by_vllm({"method": "nonsense", "num_speculative_tokens": 2}) == {"literal_error"}
    assert refused_by_vllm({"method": "ngram", "num_speculative_tokens": 2, "foo": 1}) == {"unexpected_keyword_argument"}
    assert refused_by_vllm({"method": "ngram", "num_speculative_tokens": 0}) == {"greater_than"}
