"""The config of a study as strict models: one complete file, every key with a meaning, an unknown key an error."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, model_validator

from draftmeter.strict import Strict

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$", max_length=60)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class ConfigError(ValueError):
    """A config that cannot be used: which key, what was found, what would be right."""


class Identity(Strict):
    """Who the study is, and the seed that everything random is derived from."""

    name: Name
    title: str
    kind: Literal["known_answer", "served_model"]
    seed: Annotated[int, Field(ge=0)]


class StudyIdentity(Identity):
    """With the number that multiplies the size of every run."""

    scale: Positive


# Chances of a group's tokens lie this far around their mean, and only one token in so many may be followed by the end.
CHANCE_SPREAD = 0.04
END_CONCENTRATION = 4
# A group takes 34 tokens of a vocabulary of 512, of which 258 are bytes and special tokens.
MOST_GROUPS = 7


class TokenGroup(Strict):
    """A group of tokens of the known-answer model that never mixes with another."""

    chances: Annotated[list[Annotated[float, Field(gt=0.05, lt=0.95)]], Field(min_length=3, max_length=3)]
    end_of_text: Annotated[float, Field(gt=0, lt=0.05)]

    @model_validator(mode="after")
    def _rows_have_room(self) -> "TokenGroup":
        room = 1 - CHANCE_SPREAD - 2 * END_CONCENTRATION * self.end_of_text
        if max(self.chances) >= room:
            raise ValueError(
                f"chances: found {max(self.chances)} with end_of_text {self.end_of_text}; "
                f"tokens near the end leave room for a chance below {room:.3f}"
            )
        return self


class KnownAnswerModel(Strict):
    """A checkpoint that the study writes itself; its acceptance follows from its transition matrix."""

    source: Literal["known_answer"]
    seed: Annotated[int, Field(ge=0)]
    temperature: Positive
    """The temperature at which the served distribution is the transition matrix itself."""
    groups: Annotated[dict[str, TokenGroup], Field(min_length=6, max_length=MOST_GROUPS)]


class FolderModel(Strict):
    """A checkpoint that lies in a folder of this machine."""

    source: Literal["folder"]
    path: str


class HubModel(Strict):
    """A published checkpoint. `revision` is a commit hash, or `unresolved`: a run then refuses to start."""

    source: Literal["hub"]
    repository: str
    revision: Annotated[str, Field(pattern=r"^([0-9a-f]{40}|unresolved)$")]


Model = Annotated[KnownAnswerModel | FolderModel | HubModel, Field(discriminator="source")]


class Speculative(Strict):
    """vLLM's --speculative-config: the drafting method, the draft length, and the method's own keys.

    Keys that are not named here go to vLLM as they are, and into the record.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, JsonValue]

    method: str
    num_speculative_tokens: Annotated[int, Field(ge=0)] | None
    """K: draft tokens per step. 0: no speculation. null: what the server resolves; suffix alone does."""
    model: Name | None = None
    """For a method with a draft model of its own: its name among the study's models."""

    def for_server(self, draft_path: str | None = None) -> dict[str, JsonValue]:
        """As vLLM takes it: without what is left out, and with the place of the draft model."""
        config: dict[str, JsonValue] = {key: value for key, value in self.model_dump().items() if value is not None}
        return config if draft_path is None else {**config, "model": draft_path}


class Resources(Strict):
    """What a measuring job asks of the machine or of the cluster."""

    gpu: Annotated[int, Field(ge=0)]
    gpu_model: str | None
    cpus: Count
    mem_mb: Count
    runtime_min: Count


class Server(Strict):
    """One vLLM configuration and the runs that each of its boots executes, in order."""

    model: Name
    command: Annotated[list[str], Field(min_length=1)]
    arguments: dict[str, str | int | float | bool]
    environment: dict[str, str]
    precision: str
    speculative: Speculative | None
    """null: no speculation, as with 0 draft tokens. The server is a baseline: its runs stand beside those of servers with it."""
    corrections: bool
    """Whether draftmeter's corrections to the engine may act (they do so only where they find their fault)."""
    port: Annotated[int, Field(ge=1024, le=65535)] | None
    """null: any free port of the loopback interface."""
    log_interval_s: Positive
    start_timeout_s: Positive
    quiet_timeout_s: Positive
    max_failed_share: Fraction = 0.01
    """A run of which a larger share of the requests failed is no measurement."""
    max_other_clients_share: Fraction = 0.01
    """Nor is one with passes during which a larger share of requests or tokens was of others."""
    boots: Count
    runs: Annotated[list[Name], Field(min_length=1)]
    resources: Resources

    @property
    def drafting(self) -> Speculative | None:
        """How the server makes drafts; null where it makes none."""
        return self.speculative if self.speculative and self.speculative.num_speculative_tokens != 0 else None


class RandomWords(Strict):
    """Prompts made from a seed: so many words, then the instruction."""

    kind: Literal["random_words"]
    words: Annotated[list[Count], Field(min_length=2, max_length=2)]
    instruction: str


class PromptFile(Strict):
    """Prompts from a JSON-lines file (keys `prompt`, `category`, `reply`: the right one), its contents pinned by hash."""

    kind: Literal["file"]
    path: str
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64}|unresolved)$")]


PromptSet = Annotated[RandomWords | PromptFile, Field(discriminator="kind")]


class Sampling(Strict):
    """Sampling settings of every request of a workload; top_k 0 means no truncation by rank."""

    temperature: Annotated[float, Field(ge=0, le=2)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    top_k: Annotated[int, Field(ge=0)]
    max_tokens: Annotated[list[Count], Field(min_length=1)]
    """Reply limits; a request takes one of them, drawn from the seed."""


class Sessions(Strict):
    """Production-style traffic: sessions that come and go, with growing contexts, changing categories and pauses."""

    max_running: Count
    sessions_per_minute: Positive
    turns: Annotated[list[Count], Field(min_length=2, max_length=2)]
    think_time_s: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    category_time_s: Positive
    """How long the mix of categories stays alike; sets how slowly acceptance drifts."""
    pause_every_s: Positive
    pause_s: Positive
    max_prompt_characters: Count


class Workload(Strict):
    """Where requests come from, with sampling settings and reasoning mode."""

    label: str
    prompts: Name
    reasoning: Literal["on", "off"] | None
    template_arguments: dict[str, str | bool]
    """Arguments of the chat template, such as enable_thinking."""
    categories: list[str]
    """Known-answer study: the groups of tokens that the workload's requests belong to."""
    sampling: Sampling
    sessions: Sessions | None = None
    set_size: Count = 16
    """How many prompts of the set a pass sends, the first ones; not for sessions, which draw from the whole set."""

    @property
    def clusters(self) -> Literal["sessions", "prompts"]:
        """What makes requests alike: the session they belong to, or the prompt that several runs send."""
        return "prompts" if self.sessions is None else "sessions"


class Run(Strict):
    """One workload at one number of streams. Session traffic has a duration, other runs a number of passes over the prompts."""

    workload: Name
    streams: Count | None = None
    passes: Count | None = None
    duration_s: Positive | None = None


class Analysis(Strict):
    """Settings of the statistics; none of them touches a measurement."""

    min_drafts: Count
    min_drafts_sensitivity: list[Count]
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    histogram_bin_width: Annotated[float, Field(gt=0, le=0.2)]
    z_limit: Positive
    resamples: Annotated[int, Field(ge=100)]


PublishedWorkload = Literal["evaluation_set", "public_reasoning_on", "synthetic", "pair_reasoning_on", "pair_reasoning_off"]


class Report(Strict):
    """Rows of Table 1: production first, then controlled workloads, if there are any."""

    production: Name
    controlled: list[Name]
    published: dict[Name, PublishedWorkload]
    """The controlled workload of the published study that one of ours stands beside."""
    authors: list[str]


class Study(Strict):
    """A complete config: servers, workloads, runs, analysis settings; whether they fit together is for `study.rules`."""

    study: StudyIdentity
    models: dict[Name, Model]
    servers: dict[Name, Server]
    prompts: dict[Name, PromptSet]
    workloads: dict[Name, Workload]
    runs: dict[Name, Run]
    analysis: Analysis
    report: Report

    def known_answer_servers(self) -> list[str]:
        """The servers whose model has known answers: all of a known-answer study, in another those that only calibrate it."""
        return [name for name, server in self.servers.items() if isinstance(self.models[server.model], KnownAnswerModel)]

    def served_known_answer_models(self) -> list[str]:
        """The names of the known-answer models that the servers serve, sorted; a valid study has one at most."""
        return sorted({self.servers[name].model for name in self.known_answer_servers()})

    def workloads_of(self, server: str) -> list[str]:
        """The workloads of a server's runs, in their order."""
        return list(dict.fromkeys(self.runs[run].workload for run in self.servers[server].runs))

    def speculating_servers(self, workload: str) -> list[str]:
        """The servers with speculation that run a workload: where its acceptance can be measured."""
        return [name for name, server in self.servers.items() if server.drafting and workload in self.workloads_of(name)]
