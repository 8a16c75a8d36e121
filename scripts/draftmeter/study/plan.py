"""From a study to what one measuring job does: the runs of one boot, scaled, each with a fingerprint."""

import hashlib
import math
from typing import Literal

from draftmeter.strict import Strict, canonical_json
from draftmeter.study.schema import Model, PromptSet, Server, Study, Workload

# A scaled-down run keeps this many requests: clustered standard errors need clusters.
FEWEST_REQUESTS = 8


# Keys of a server that change nothing of what a run measures.
NOT_DECISIVE = {
    *("precision", "resources", "runs", "boots", "port", "start_timeout_s", "quiet_timeout_s"),
    *("max_failed_share", "max_other_clients_share"),
}


class RunPlan(Strict):
    """One run with everything that decides what is sent."""

    run: str
    workload_name: str
    workload: Workload
    prompts: PromptSet
    seed: int
    streams: int | None
    set_size: int
    """Prompts of one pass."""
    passes: int | None
    duration_s: float | None

    @property
    def requests(self) -> int | None:
        """How many requests the passes are; null for session traffic, which lasts for a time."""
        return None if self.passes is None else self.passes * self.set_size


class BootPlan(Strict):
    """One boot: the server, its model and its runs in order. Analysis settings are absent on purpose."""

    study: str
    study_kind: Literal["known_answer", "served_model"]
    server_name: str
    boot: str
    replicate: int
    place: int
    """Of this boot among all of the study's, in the order that was drawn from the seed; from 1."""
    model_name: str
    model: Model
    draft: Model | None
    """The draft model, for a method that has one of its own."""
    server: Server
    runs: list[RunPlan]

    def fingerprint(self, run: RunPlan) -> str:
        """The sha256 of everything that decides a run's outcome; a record with another one is of another study."""
        server = self.server.model_dump(mode="json", exclude=NOT_DECISIVE)
        # A path says where files lie; what is in them is pinned by their hash and by the record's model revision.
        model = self.model.model_dump(mode="json", exclude={"path"})
        draft = None if self.draft is None else self.draft.model_dump(mode="json", exclude={"path"})
        content = [self.study, self.study_kind, self.server_name, self.boot, model, draft, server]
        sent = run.model_dump(mode="json", exclude={"workload": {"label"}, "prompts": {"path"}})
        return hashlib.sha256(canonical_json([content, sent]).encode()).hexdigest()


def plan_boot(study: Study, server_name: str, boot: str) -> BootPlan:
    """The plan of boot `boot` ("boot-1", "boot-2", ...) of a server."""
    server = study.servers[server_name]
    replicate = boot_names(study, server_name).index(boot) + 1
    runs = [_plan_run(study, replicate, name) for name in server.runs]
    draft = server.drafting.model if server.drafting else None
    return BootPlan(
        study=study.study.name,
        study_kind=study.study.kind,
        server_name=server_name,
        boot=boot,
        replicate=replicate,
        place=boot_order(study).index((server_name, boot)) + 1,
        model_name=server.model,
        model=study.models[server.model],
        draft=None if draft is None else study.models[draft],
        server=server,
        runs=runs,
    )


def boot_names(study: Study, server_name: str) -> list[str]:
    """The names of a server's boots, in order."""
    return [f"boot-{number}" for number in range(1, study.servers[server_name].boots + 1)]


def boot_order(study: Study) -> list[tuple[str, str]]:
    """Every boot as (server, name), in the order in which one machine boots them.

    Each round boots every server that has a boot left once, in an order drawn from the study's seed: what changes with
    time on the machine then falls on all servers alike.
    """
    order: list[tuple[str, str]] = []
    for number in range(1, max(server.boots for server in study.servers.values()) + 1):
        servers = sorted(name for name, server in study.servers.items() if server.boots >= number)
        servers.sort(key=lambda name: derive_seed(study.study.seed, "boot order", number, name))
        order += [(name, f"boot-{number}") for name in servers]
    return order


def known_answer_model_name(study: Study) -> str | None:
    """The name of the known-answer model that the study's servers serve, if there is one."""
    return next(iter(study.served_known_answer_models()), None)


def _scaled(passes: int, set_size: int, scale: float) -> tuple[int, int]:
    """Passes and prompts of each for a scaled study: fewer passes first, and below one pass fewer prompts."""
    scaled = passes * scale
    if scaled >= 1:
        return math.ceil(scaled), set_size
    return 1, max(min(set_size, FEWEST_REQUESTS), math.ceil(set_size * scaled))


def derive_seed(*parts: str | int) -> int:
    """A seed below 2**31 from names and numbers: the same parts give the same seed on every machine."""
    digest = hashlib.sha256(canonical_json(list(parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _plan_run(study: Study, replicate: int, name: str) -> RunPlan:
    run = study.runs[name]
    workload = study.workloads[run.workload]
    scale = study.study.scale
    passes, set_size = (None, workload.set_size) if run.passes is None else _scaled(run.passes, workload.set_size, scale)
    return RunPlan(
        run=name,
        workload_name=run.workload,
        workload=workload,
        prompts=study.prompts[workload.prompts],
        # Of neither server nor run: every server and every number of streams gets the same requests.
        seed=derive_seed(study.study.seed, run.workload, replicate),
        streams=run.streams,
        set_size=set_size,
        passes=passes,
        duration_s=None if run.duration_s is None else run.duration_s * scale,
    )
