"""Whether the parts of a config fit together: everything wrong with it that no single value shows, before anything runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from draftmeter.record.provenance import is_secret

if TYPE_CHECKING:
    from draftmeter.study.schema import Run, Server, Study, Workload

# Arguments that decide what is measured; draftmeter sets them, a config cannot.
OWN_ARGUMENTS = (
    *("model", "host", "port", "speculative-config", "per-request-spec-decode-metrics", "served-model-name"),
    *("spec-method", "spec-model", "spec-tokens", "disable-log-stats"),
)
# Methods whose drafts come from a model of their own. ngram and suffix look into the text, and a
# model's own head is in its files.
WITH_DRAFT_MODEL = ("draft_model", "eagle", "eagle3", "medusa", "mlp_speculator")
WITHOUT_DRAFT_MODEL = ("ngram", "ngram_gpu", "suffix", "mtp")
OWN_VARIABLES = ("TZ", "VLLM_PLUGINS", "VLLM_LOG_STATS_INTERVAL", "VLLM_LOGGING_LEVEL")
# The value of a template argument that a request replaces by its own category.
CATEGORY = "{category}"


def problems(study: Study) -> list[str]:
    """One line for each combination that cannot be measured: the key, what was found, what would be right.

    Names that are not defined come alone: the other checks follow them.
    """
    if unknown := list(_undefined_names(study)):
        return unknown
    found = [*_kind(study), *_baselines(study), *_ranges(study)]
    for name, server in study.servers.items():
        found += _speculation(name, server)
        found += [*_server(name, server), *_names_of_arguments(name, server), *_capacity(study, name, server)]
    for name, workload in study.workloads.items():
        found += _categories(study, name, workload)
    for name, run in study.runs.items():
        found += _size(name, run, study.workloads[run.workload])
    return [*found, *_report(study)]


def _undefined_names(study: Study) -> Iterator[str]:
    for name, server in study.servers.items():
        yield from undefined(f"servers.{name}.model", server.model, study.models)
        if server.speculative is not None and server.speculative.model is not None:
            yield from undefined(f"servers.{name}.speculative.model", server.speculative.model, study.models)
        for run in server.runs:
            yield from undefined(f"servers.{name}.runs", run, study.runs)
    for name, workload in study.workloads.items():
        yield from undefined(f"workloads.{name}.prompts", workload.prompts, study.prompts)
    for name, planned in study.runs.items():
        yield from undefined(f"runs.{name}.workload", planned.workload, study.workloads)
    yield from undefined("report.production", study.report.production, study.workloads)
    for row in study.report.controlled:
        yield from undefined("report.controlled", row, study.workloads)


def _kind(study: Study) -> Iterator[str]:
    calibrating, models = study.known_answer_servers(), study.served_known_answer_models()
    others = sorted(set(study.servers) - set(calibrating))
    if study.study.kind == "known_answer" and (others or len(models) != 1):
        yield (
            f"study.kind: found 'known_answer' with known-answer models {models}, and servers {others} of other models; "
            "all servers of a known_answer study serve one known-answer model"
        )
    if study.study.kind == "served_model" and (not others or len(models) > 1):
        yield (
            f"study.kind: found 'served_model' with known-answer models {models}, and servers {others} of other models; "
            "a served_model study serves another model, and beside it one known-answer model at most, for the calibration"
        )
    without = [name for name in calibrating if study.servers[name].drafting is None]
    if without:
        yield (
            f"servers.{without[0]}.speculative: found no speculation with a known-answer model, "
            "of which acceptance alone is known"
        )
    drafting = [study.servers[name].drafting for name in calibrating]
    lengths = {one.num_speculative_tokens or 0 for one in drafting if one is not None}
    if len(lengths) > 1:
        yield (
            f"servers.*.speculative.num_speculative_tokens: found {sorted(lengths)}; "
            "the exact figures of a known-answer model are for one number of draft tokens"
        )


def _baselines(study: Study) -> Iterator[str]:
    """A run without speculation is there to stand beside the same one with it."""
    measured = {run for server in study.servers.values() if server.drafting for run in server.runs}
    for name, server in study.servers.items():
        alone = [run for run in server.runs if server.drafting is None and run not in measured]
        if alone:
            yield (
                f"servers.{name}.runs: found {alone} without speculation, and on no server with it; "
                "a baseline executes runs of a server with speculation"
            )


def _ranges(study: Study) -> Iterator[str]:
    ranges: list[tuple[str, list[int] | list[float]]] = []
    for name, prompts in study.prompts.items():
        if prompts.kind == "random_words":
            ranges.append((f"prompts.{name}.words", prompts.words))
    for name, workload in study.workloads.items():
        if workload.sessions is not None:
            ranges.append((f"workloads.{name}.sessions.turns", workload.sessions.turns))
            ranges.append((f"workloads.{name}.sessions.think_time_s", workload.sessions.think_time_s))
    for key, (low, high) in ranges:
        if low > high:
            yield f"{key}: found [{low}, {high}]; the smaller number comes first: [{high}, {low}]"


def _server(name: str, server: Server) -> Iterator[str]:
    if len(set(server.runs)) != len(server.runs):
        yield f"servers.{name}.runs: a run is listed twice; a boot executes each run once"
    asked = server.resources
    if asked.gpu == 0 and asked.gpu_model is not None:
        yield (
            f"servers.{name}.resources.gpu_model: found {asked.gpu_model!r} with gpu: 0; "
            "ask for at least one GPU, or use null for gpu_model"
        )


def _speculation(name: str, server: Server) -> Iterator[str]:
    """What vLLM would refuse after the start, or take for something else without a word."""
    drafting, key = server.drafting, f"servers.{name}.speculative"
    if drafting is None:
        return
    if drafting.num_speculative_tokens is None and drafting.method != "suffix":
        yield f"{key}.num_speculative_tokens: found null with method {drafting.method!r}; suffix alone finds its own length"
    if drafting.method in WITH_DRAFT_MODEL and drafting.model is None:
        yield f"{key}.model: found none with method {drafting.method!r}; give the draft model's name among the models"
    if drafting.method in WITHOUT_DRAFT_MODEL and drafting.model is not None:
        yield f"{key}.model: found {drafting.model!r} with method {drafting.method!r}, which has no model of its own; drop it"
    if drafting.model == server.model:
        yield (
            f"{key}.model: found {drafting.model!r}, the model that is served: vLLM would use its own head instead (mtp); "
            "name another model, or use method mtp"
        )


def _names_of_arguments(name: str, server: Server) -> Iterator[str]:
    own = sorted(filter(_is_own, server.arguments))
    if own:
        yield f"servers.{name}.arguments: {own} are set by draftmeter itself; remove them"
    taken = sorted(set(server.environment) & set(OWN_VARIABLES))
    if taken:
        yield f"servers.{name}.environment: {taken} are set by draftmeter itself; remove them"
    in_command = [part.partition("=")[0] for part in server.command if "=" in part]
    for part, names in (("command", in_command), ("arguments", server.arguments), ("environment", server.environment)):
        for secret in filter(is_secret, names):
            # The value stays out of the message.
            yield (
                f"servers.{name}.{part}.{secret}: found what its name calls a secret; "
                "set it in the shell that starts the study: a config is stored with the results"
            )


def _capacity(study: Study, name: str, server: Server) -> Iterator[str]:
    """Whether what the server's runs ask for fits its limits; a queue in front of the server would be measured as load."""
    at_once = _limit(server, "max-num-seqs")
    if at_once is not None:
        at_once *= _limit(server, "data-parallel-size") or 1  # the limit is one of each rank
    length = _limit(server, "max-model-len")
    for run_name in server.runs:
        streams = study.runs[run_name].streams
        if at_once is not None and streams is not None and streams > at_once:
            yield (
                f"runs.{run_name}.streams: found {streams}, but server {name!r} takes {at_once} requests at once "
                "(max-num-seqs); use fewer streams or raise max-num-seqs"
            )
    for workload_name in dict.fromkeys(study.runs[run_name].workload for run_name in server.runs):
        workload = study.workloads[workload_name]
        longest = max(workload.sampling.max_tokens)
        if length is not None and longest >= length:
            yield (
                f"workloads.{workload_name}.sampling.max_tokens: found {longest}, but server {name!r} holds {length} tokens "
                "of prompt and reply together (max-model-len); use a lower limit or raise max-model-len"
            )
        if at_once is not None and workload.sessions is not None and workload.sessions.max_running > at_once:
            yield (
                f"workloads.{workload_name}.sessions.max_running: found {workload.sessions.max_running}, but server {name!r} "
                f"takes {at_once} requests at once (max-num-seqs); use a lower number or raise max-num-seqs"
            )


def _categories(study: Study, name: str, workload: Workload) -> Iterator[str]:
    """A known-answer server can be checked only where each request's group of tokens is known and reaches it."""
    if not any(name in study.workloads_of(server) for server in study.known_answer_servers()):
        return
    groups = {group for model in study.models.values() if model.source == "known_answer" for group in model.groups}
    if set(workload.categories) - groups or not workload.categories:
        yield (
            f"workloads.{name}.categories: found {workload.categories}; "
            f"on a known-answer server it needs at least one of the groups {sorted(groups)}"
        )
    if workload.template_arguments.get("group") != CATEGORY:
        yield (
            f"workloads.{name}.template_arguments: found {workload.template_arguments}; a known-answer server needs "
            f'group: "{CATEGORY}", or every request has the same group'
        )
    if workload.sampling.temperature == 0:
        yield f"workloads.{name}.sampling.temperature: 0 makes every reply one fixed cycle; use more than 0"


def _size(name: str, run: Run, workload: Workload) -> Iterator[str]:
    if workload.sessions is not None:
        if run.duration_s is None or run.passes is not None or run.streams is not None:
            yield f"runs.{name}: session traffic takes duration_s, and neither passes nor streams"
    elif run.passes is None or run.streams is None or run.duration_s is not None:
        yield f"runs.{name}: takes passes and streams, and no duration_s (that is for session traffic)"


def _report(study: Study) -> Iterator[str]:
    production, controlled = study.report.production, study.report.controlled
    if study.workloads[production].sessions is None:
        with_sessions = sorted(name for name, workload in study.workloads.items() if workload.sessions is not None)
        yield (
            f"report.production: found {production!r}, a workload without sessions; "
            f"its intervals are read as a time series, so name one with sessions: {with_sessions}"
        )
    yield from repeated_rows(production, controlled)
    yield from misplaced(controlled, study.report.published)
    calibrating = study.known_answer_servers() if study.study.kind == "served_model" else []
    for row in dict.fromkeys([production, *controlled]):
        servers = study.speculating_servers(row)
        if not servers:
            yield f"report: no server with speculation runs workload {row!r}; add a run of it or drop the row"
        elif set(servers) & set(calibrating):
            yield (
                f"report: workload {row!r} is run by {servers}; a server of a known-answer model only calibrates a served_model "
                "study and has no row; give it a workload of its own"
            )
        elif len(servers) > 1 and row == production:
            yield (
                f"report.production: workload {row!r} is run by the servers {servers}, and its intervals are one time series; "
                "give each server a workload of its own, or name one that a single server runs"
            )


def repeated_rows(production: str, controlled: list[str]) -> Iterator[str]:
    """One line for each workload that the report names more than once."""
    rows = [production, *controlled]
    for row in dict.fromkeys(rows):
        if rows.count(row) > 1:
            where = "is the production row as well" if row == production else "is listed twice"
            yield f"report.controlled: found {row!r}, which {where}; name each row once"


def misplaced(controlled: list[str], published: Mapping[str, str]) -> Iterator[str]:
    """One line for each workload that cannot stand beside one of the published study."""
    for row, name in published.items():
        if row not in controlled:
            yield f"report.published.{row}: found no such row in report.controlled, whose figures stand beside published ones"
        if list(published.values()).index(name) != list(published).index(row):
            yield f"report.published.{row}: found {name!r}, which stands beside another workload already; one of them can"


def undefined(key: str, name: str, defined: Collection[str]) -> Iterator[str]:
    """One line if `name` is not defined."""
    if name not in defined:
        yield f"{key}: found {name!r}, which is not defined; defined are {sorted(defined)}"


def _limit(server: Server, argument: str) -> int | None:
    """An argument that is a whole number; null where it is absent or in a form that vLLM alone reads (auto, -1, 8k)."""
    text = {_hyphened(name): str(value) for name, value in server.arguments.items()}.get(argument, "")
    return int(text) if re.fullmatch(r"[1-9][0-9]*", text) else None


def _is_own(argument: str) -> bool:
    """To vLLM `speculative-config.method` is a part of speculative-config, and `served-model` is short for served-model-name."""
    start = _hyphened(argument.partition(".")[0])
    return any(own.startswith(start) for own in OWN_ARGUMENTS)


def _hyphened(name: str) -> str:
    """vLLM takes either spelling of an argument."""
    return name.replace("_", "-")
