"""The config: what is accepted, and that each kind of mistake is refused with its key, what was found and what is right."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftmeter.study.config import parse_study, read_study
from draftmeter.study.plan import FEWEST_REQUESTS, boot_names, boot_order, derive_seed, plan_boot
from draftmeter.study.schema import ConfigError

CONFIGS = Path(__file__).parents[2] / "config"
DEFAULT: dict[str, Any] = yaml.safe_load((CONFIGS / "calibration.yaml").read_text())


def changed(path: str, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(DEFAULT)
    *parents, last = path.split("/")
    where = config
    for key in parents:
        where = where[key]
    where[last] = value
    return config


@pytest.mark.parametrize("name", ["config.yaml", "calibration.yaml", "h200.yaml"])
def test_shipped_configs_are_valid(name: str) -> None:
    study = read_study(CONFIGS / name)
    for server in study.servers:
        for boot in boot_names(study, server):
            assert plan_boot(study, server, boot).runs


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("servers/controlled/speculative", {"method": "mtp", "num_speculative_tokens": 2}, r"found \[2, 3\]; the exact figures"),
        (
            "models/known-answer/groups/D",
            {"chances": [0.9, 0.9, 0.9], "end_of_text": 0.01},
            "leave room for a chance below 0.880",
        ),
        ("workloads/evaluation/template_arguments", {"groop": "{category}"}, "or every request has the same group"),
        ("servers/production/environment", {"TZ": "CET"}, r"environment: \['TZ'\] are set by draftmeter itself"),
        (
            "servers/production/command",
            ["docker", "run", "-e", "HF_TOKEN=hf"],
            "command.HF_TOKEN: found what its name calls a secret",
        ),
        ("servers/production/arguments", {"spec-model": "x"}, r"\['spec-model'\] are set by draftmeter itself"),
        ("study/sclae", 2.0, "study.sclae: unknown key"),
        ("study/scale", "big", "study.scale: input should be a valid number; found 'big'"),
        ("study/scale", 0.0, "study.scale: input should be greater than 0; found 0.0"),
        ("servers/production/model", "gpt", "servers.production.model: found 'gpt', which is not defined"),
        ("servers/production/runs", ["pair-of"], "servers.production.runs: found 'pair-of', which is not defined"),
        ("servers/production/runs", ["traffic", "traffic"], "a run is listed twice"),
        ("servers/production/log_interval_s", -1, "log_interval_s: input should be greater than 0"),
        (
            "runs/traffic",
            {"workload": "traffic", "streams": 4, "passes": 3},
            "runs.traffic: session traffic takes duration_s",
        ),
        (
            "runs/evaluation",
            {"workload": "evaluation", "duration_s": 3.0},
            "runs.evaluation: takes passes and streams",
        ),
        ("workloads/evaluation/categories", ["Z"], r"workloads.evaluation.categories: found \['Z'\]"),
        ("workloads/evaluation/sampling/temperature", 0, "temperature: 0 makes every reply one fixed cycle"),
        ("workloads/evaluation/prompts", "none", "workloads.evaluation.prompts: found 'none'"),
        (
            "models/known-answer/groups/A/chances",
            [0.5, 1.2, 0.5],
            "models.known-answer.known_answer.groups.A.chances.1",
        ),
        ("study/kind", "served_model", "a served_model study serves another model, and beside it one known-answer model"),
        (
            "servers/controlled/speculative",
            None,
            "servers.controlled.speculative: found no speculation with a known-answer model",
        ),
        ("report/controlled", ["synthetic", "nothing"], "report.controlled: found 'nothing', which is not defined"),
        ("report/production", "nothing", "report.production: found 'nothing', which is not defined"),
        ("analysis/confidence", 95, "analysis.confidence: input should be less than 1; found 95"),
    ],
)
def test_a_mistake_is_named(path: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_study(changed(path, value))


NO_GPU = {"gpu": 0, "gpu_model": "h200", "cpus": 2, "mem_mb": 8000, "runtime_min": 30}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("prompts/pair/words", [60, 20], "prompts.pair.words: found [60, 20]; the smaller number comes first: [20, 60]"),
        ("workloads/traffic/sessions/turns", [6, 2], "workloads.traffic.sessions.turns: found [6, 2]"),
        ("workloads/traffic/sessions/think_time_s", [4.0, 0.5], "workloads.traffic.sessions.think_time_s: found [4.0, 0.5]"),
        (
            "report",
            {"production": "pair-on", "controlled": ["pair-off"], "published": {}, "authors": []},
            "report.production: found 'pair-on', a workload without sessions; its intervals are read as a time series, "
            "so name one with sessions: ['traffic']",
        ),
        (
            "report/controlled",
            ["synthetic", "pair-on", "synthetic"],
            "report.controlled: found 'synthetic', which is listed twice",
        ),
        ("report/published", {"traffic": "synthetic"}, "report.published.traffic: found no such row in report.controlled"),
        (
            "report/published",
            {"pair-on": "synthetic", "pair-off": "synthetic"},
            "report.published.pair-off: found 'synthetic', which stands beside another workload already; one of them can",
        ),
        ("report/controlled", ["traffic"], "report.controlled: found 'traffic', which is the production row as well"),
        (
            "servers/controlled/runs",
            ["evaluation", "reasoning-1", "synthetic-1", "synthetic-1"],
            "servers.controlled.runs: a run is listed twice",
        ),
        (
            "servers/controlled/runs",
            ["evaluation", "reasoning-1"],
            "report: no server with speculation runs workload 'synthetic'",
        ),
        (
            "workloads/evaluation/template_arguments",
            {"group": "A"},
            "workloads.evaluation.template_arguments: found {'group': 'A'}; a known-answer server needs group: \"{category}\"",
        ),
        (
            "runs/synthetic-64/streams",
            65,
            "runs.synthetic-64.streams: found 65, but server 'controlled' takes 64 requests at once (max-num-seqs)",
        ),
        (
            "servers/controlled/arguments",
            {"max_num_seqs": "63"},
            "runs.reasoning-64.streams: found 64, but server 'controlled' takes 63",
        ),
        (
            "workloads/evaluation/sampling/max_tokens",
            [64, 8192],
            "workloads.evaluation.sampling.max_tokens: found 8192, but server 'controlled' holds 8192 tokens",
        ),
        (
            "servers/production/arguments",
            {"max_model_len": 512},
            "workloads.pair-off.sampling.max_tokens: found 512, but server 'production' holds 512 tokens",
        ),
        (
            "workloads/traffic/sessions/max_running",
            65,
            "workloads.traffic.sessions.max_running: found 65, but server 'production' takes 64 requests at once",
        ),
        (
            "servers/production/arguments",
            {"port": 1, "dtype": "float32", "served_model_name": "m", "speculative-config.method": "mtp"},
            "servers.production.arguments: ['port', 'served_model_name', 'speculative-config.method'] are set by draftmeter",
        ),
        (
            "servers/production/arguments",
            {"served-model": "m"},
            "servers.production.arguments: ['served-model'] are set by draftmeter itself; remove them",
        ),
        (
            "servers/production/arguments",
            {"api-key": "hunter2"},
            "servers.production.arguments.api-key: found what its name calls a secret; "
            "set it in the shell that starts the study: a config is stored with the results",
        ),
        (
            "servers/production/environment",
            {"HF_TOKEN": "hunter2"},
            "servers.production.environment.HF_TOKEN: found what its name",
        ),
        (
            "servers/production/environment",
            {"Password": "hunter2"},
            "servers.production.environment.Password: found what its name",
        ),
        (
            "servers/production/resources",
            NO_GPU,
            "servers.production.resources.gpu_model: found 'h200' with gpu: 0; ask for at least one GPU, or use null",
        ),
    ],
)
def test_an_impossible_combination_is_named(path: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_study(changed(path, value))
    assert str(refused.value).startswith(f"the config is not usable:\n  {says}")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"max-model-len": "auto", "max-num-batched-tokens": 16384},
        {"max-model-len": 513, "max-num-seqs": 64, "return-tokens-as-token-ids": True},
        {"max_model_len": -1, "model-impl": "auto"},
    ],
)
def test_arguments_that_only_look_alike_are_accepted(arguments: dict[str, Any]) -> None:
    assert parse_study(changed("servers/controlled/arguments", arguments)).servers["controlled"].arguments == arguments


def test_every_combination_that_is_wrong_is_named_at_once() -> None:
    config = changed("prompts/pair/words", [60, 20])
    config["report"]["controlled"].append("traffic")
    with pytest.raises(ConfigError) as refused:
        parse_study(config)
    assert [line.split(":")[0] for line in str(refused.value).splitlines()[1:]] == ["  prompts.pair.words", "  report.controlled"]


SERVED: dict[str, Any] = yaml.safe_load((CONFIGS / "config.yaml").read_text())


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("study/kind", "known_answer", "all servers of a known_answer study serve one known-answer model"),
        ("report/controlled", ["calibration-a"], "a server of a known-answer model only calibrates a served_model study"),
        ("servers/controlled/speculative", None, "report: no server with speculation runs workload 'evaluation'"),
        ("workloads/calibration-b/template_arguments", {}, "a known-answer server needs group"),
        ("workloads/calibration-c/sampling/temperature", 0, "temperature: 0 makes every reply one fixed cycle"),
        (
            "servers/controlled/runs",
            ["code-1"],
            r"servers.baseline.runs: found \['code-8', .*without speculation, and on no server",
        ),
        (
            "servers/controlled/runs",
            [*SERVED["servers"]["controlled"]["runs"], "traffic"],
            r"report.production: workload 'traffic' is run by the servers \['production', 'controlled'\], and its intervals",
        ),
        (
            "servers/controlled/speculative",
            {"method": "mtp", "num_speculative_tokens": None},
            "num_speculative_tokens: found null with method 'mtp'; suffix alone finds its own length",
        ),
        (
            "servers/controlled/speculative",
            {"method": "draft_model", "num_speculative_tokens": 3},
            "speculative.model: found none with method 'draft_model'",
        ),
        (
            "servers/controlled/speculative",
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "small-moe"},
            "found 'small-moe', the model that is served: vLLM would use its own head instead",
        ),
        (
            "servers/controlled/speculative",
            {"method": "eagle3", "num_speculative_tokens": 3, "model": "nowhere"},
            "servers.controlled.speculative.model: found 'nowhere', which is not defined",
        ),
        (
            "servers/controlled/speculative",
            {"method": "ngram", "num_speculative_tokens": 3, "model": "known-answer"},
            "found 'known-answer' with method 'ngram', which has no model of its own",
        ),
        ("servers/controlled/speculative", {"method": "mtp", "num_speculative_tokens": 0}, "report: no server with speculation"),
        (
            "servers/calibration/speculative",
            {"method": "mtp", "num_speculative_tokens": 0},
            "servers.calibration.speculative: found no speculation with a known-answer model",
        ),
    ],
)
def test_a_served_study_with_baseline_and_calibration_is_checked(path: str, value: Any, says: str) -> None:
    config = copy.deepcopy(SERVED)
    *parents, last = path.split("/")
    where = config
    for key in parents:
        where = where[key]
    where[last] = value
    with pytest.raises(ConfigError, match=says):
        parse_study(config)


def test_a_baseline_sends_the_same_requests() -> None:
    study = parse_study(SERVED)
    with_speculation, without = (
        {run.run: run for run in plan_boot(study, server, "boot-1").runs} for server in ("controlled", "baseline")
    )
    assert without and all(with_speculation[name] == run for name, run in without.items())


def test_a_missing_key_is_named() -> None:
    config = copy.deepcopy(DEFAULT)
    del config["analysis"]["z_limit"]
    with pytest.raises(ConfigError, match=r"analysis\.z_limit: missing"):
        parse_study(config)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("- a\n- b\n")
    with pytest.raises(ConfigError, match="found list; a config is a mapping"):
        read_study(path)
    path.write_text("a: [1\n")
    with pytest.raises(ConfigError, match="cannot be read as YAML"):
        read_study(path)


def test_scale_scales_every_size_down_to_a_floor() -> None:
    plan = plan_boot(parse_study(changed("study/scale", 0.1)), "controlled", "boot-1")
    sizes = {run.run: run.requests for run in plan.runs}
    assert sizes["synthetic-64"] == 2 * 16
    assert sizes["synthetic-8"] == FEWEST_REQUESTS
    assert sizes["reasoning-1"] == FEWEST_REQUESTS
    assert plan_boot(parse_study(changed("study/scale", 0.1)), "production", "boot-1").runs[2].duration_s == pytest.approx(25.0)


def test_the_pair_sends_the_same_prompts() -> None:
    runs = {run.run: run for run in plan_boot(parse_study(DEFAULT), "production", "boot-1").runs}
    assert runs["pair-on"].prompts == runs["pair-off"].prompts
    assert runs["pair-on"].seed != runs["pair-off"].seed


def test_only_what_decides_a_measurement_changes_its_fingerprint() -> None:
    def prints(config: dict[str, Any]) -> list[str]:
        plan = plan_boot(parse_study(config), "production", "boot-1")
        return [plan.fingerprint(run) for run in plan.runs]

    before = prints(DEFAULT)
    assert prints(changed("analysis/z_limit", 3)) == before
    assert prints(changed("servers/production/start_timeout_s", 10)) == before
    assert prints(changed("servers/production/max_failed_share", 0.5)) == before
    assert prints(changed("servers/production/max_other_clients_share", 0.5)) == before
    assert prints(changed("servers/production/runs", ["pair-off", "pair-on", "traffic"])) == before
    after = prints(changed("workloads/pair-on/sampling/temperature", 0.9))
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True]
    assert prints(changed("servers/production/precision", "full")) == before
    assert not set(prints(changed("servers/production/arguments/dtype", "bfloat16"))) & set(before)


def test_a_workload_may_run_on_any_number_of_servers_with_any_draft_length() -> None:
    config = copy.deepcopy(SERVED)
    for length in (1, 2, 20):
        speculative = {"method": "mtp", "num_speculative_tokens": length}
        config["servers"][f"k{length}"] = {**config["servers"]["controlled"], "speculative": speculative, "runs": ["code-1"]}
    suffix = {"method": "suffix", "num_speculative_tokens": None, "suffix_decoding_max_tree_depth": 8}
    config["servers"]["suffix"] = {**config["servers"]["controlled"], "speculative": suffix, "runs": ["code-1"]}
    study = parse_study(config)
    assert study.speculating_servers("code") == ["controlled", "k1", "k2", "k20", "suffix"]
    passed_on = study.servers["suffix"].drafting
    assert passed_on is not None
    assert passed_on.for_server() == {"method": "suffix", "suffix_decoding_max_tree_depth": 8}


def test_boots_alternate_servers_in_an_order_drawn_from_the_seed() -> None:
    config = copy.deepcopy(SERVED)
    for name in ("controlled", "baseline"):
        config["servers"][name]["boots"] = 3
    study = parse_study(config)
    order = boot_order(study)
    assert sorted(order) == sorted((server, boot) for server in study.servers for boot in boot_names(study, server))
    rounds = [boot for _, boot in order]
    assert rounds == sorted(rounds)
    assert order == boot_order(study)
    orders = {tuple(boot_order(parse_study({**config, "study": {**config["study"], "seed": seed}}))) for seed in range(40)}
    assert len(orders) > 1
    assert [plan_boot(study, *boot).place for boot in order] == list(range(1, len(order) + 1))


def test_seeds_are_stable() -> None:
    assert derive_seed("a", 1) == derive_seed("a", 1) != derive_seed("a", 2)
    assert 0 <= derive_seed("x") < 2**31
