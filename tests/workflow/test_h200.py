"""The H200 study cannot run here; that vLLM's own argument parser takes its servers' arguments can be shown."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from draftmeter.measure.server import server_command
from draftmeter.study.config import read_study
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
