"""known_answer.json: the exact acceptance of every kind of request that a study sends to its known-answer model."""

from typing import Any

from draftmeter.models.known_answer import Setting, build_chain, expect
from draftmeter.study.schema import KnownAnswerModel, Study


def known_answers(study: Study, model_name: str) -> dict[str, Any]:
    """Expected counts per request, one entry a combination of group, sampling settings and reply limit.

    A valid study has one K for all servers of such a model. Raises ValueError for a model without known answers.
    """
    model = study.models[model_name]
    if not isinstance(model, KnownAnswerModel):
        raise ValueError(f"models.{model_name}: source is {model.source}; only a known_answer model has known answers")
    drafting = (server.drafting for server in study.servers.values() if server.model == model_name)
    k = next(one.num_speculative_tokens for one in drafting if one is not None and one.num_speculative_tokens)
    return {
        "model": {"name": model_name, "seed": model.seed, "temperature": model.temperature, "draft_tokens": k},
        "settings": [_answer(model, setting, k) for setting in settings(study)],
    }


def settings(study: Study) -> list[Setting]:
    """Every distinct setting that a request to a known-answer server can have, in a fixed order."""
    workloads = {workload for server in study.known_answer_servers() for workload in study.workloads_of(server)}
    found = {
        Setting(category, sampling.temperature, sampling.top_p, sampling.top_k, max_tokens)
        for workload in workloads
        for sampling in [study.workloads[workload].sampling]
        for category in study.workloads[workload].categories
        for max_tokens in sampling.max_tokens
    }
    return sorted(found, key=lambda s: (s.category, s.temperature, s.top_p, s.top_k, s.max_tokens))


def _answer(model: KnownAnswerModel, setting: Setting, draft_tokens: int) -> dict[str, Any]:
    expected = expect(build_chain(model, setting.category), setting, draft_tokens)
    drafts = expected.drafts
    through = [accepted / drafts if drafts else None for accepted in expected.accepted]
    return {
        "category": setting.category,
        "temperature": setting.temperature,
        "top_p": setting.top_p,
        "top_k": setting.top_k,
        "max_tokens": setting.max_tokens,
        "drafts": drafts,
        "accepted": expected.accepted,
        "emitted_tokens": expected.emitted_tokens,
        "accepted_past_cut": expected.accepted_past_cut,
        # Of (drafts, accepted through 1..K, tokens emitted after the first) of one request.
        "covariance": expected.covariance.tolist(),
        "share_through": through,
        "tokens_per_step": 1 + sum(expected.accepted) / drafts if drafts else None,
    }
