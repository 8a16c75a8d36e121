"""The columns of all tables, those of a study and those of `draftmeter read`. A null is unknown.

`start`, `end`, `start_time` and `t_...` are Unix seconds, `window_s`, `since_last_line_s` and
`seconds` seconds, throughputs tokens per second, `kv_cache_usage` and `prefix_cache_hit_rate`
fractions of 1. `accepted_1` to `accepted_K` stand where a table has ``accepted_k``, drafts with at
least so many tokens accepted, and `eligible_1` to `eligible_K` where it has ``eligible_k``, drafts
that hold a token there with all tokens before it accepted; K is the largest of what was read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

ACCEPTED, ELIGIBLE = "accepted", "eligible"
PER_POSITION = {"accepted_k": ACCEPTED, "eligible_k": ELIGIBLE}
COUNTED_BY_COUNTERS, COUNTED_BY_LINES = "counters", "lines"
ALL_ENGINES = "all"
"""The engine of a row of counters that stands for all engines of a model."""

TEXT, WHOLE, REAL, TRUTH = pa.string(), pa.int64(), pa.float64(), pa.bool_()
INTERVALS = {
    "source": TEXT,
    "offset": WHOLE,
    "process": TEXT,
    "engine": TEXT,
    "start": REAL,
    "end": REAL,
    "window_s": REAL,
    "since_last_line_s": REAL,
    "k": WHOLE,
    "drafts": WHOLE,
    "drafts_exact": TRUTH,
    "drafted": WHOLE,
    "accepted": WHOLE,
    "accepted_k": WHOLE,
    "accepted_k_exact": TRUTH,
    "running": WHOLE,
    "waiting": WHOLE,
    "prompt_tokens_per_s": REAL,
    "generation_tokens_per_s": REAL,
    "kv_cache_usage": REAL,
    "prefix_cache_hit_rate": REAL,
    "wording": TEXT,
    "extra": TEXT,
}
COUNTERS = {
    "source": TEXT,
    "model": TEXT,
    "engine": TEXT,
    "counted_by": TEXT,
    "k": WHOLE,
    "drafts": WHOLE,
    "draft_tokens": WHOLE,
    "accepted": WHOLE,
    "accepted_k": WHOLE,
    "accepted_k_exact": TRUTH,
    "generation_tokens": WHOLE,
    "prompt_tokens": WHOLE,
    "cached_prompt_tokens": WHOLE,
    "requests_finished": WHOLE,
    "preemptions": WHOLE,
    "start": REAL,
    "end": REAL,
    "seconds": REAL,
    "restarts": WHOLE,
    "start_time": REAL,
}
REQUESTS = {
    "source": TEXT,
    "request_id": TEXT,
    "session_id": TEXT,
    "turn": WHOLE,
    "category": TEXT,
    "seed": WHOLE,
    "max_tokens": WHOLE,
    "prompt_sha256": TEXT,
    "t_due": REAL,
    "t_sent": REAL,
    "t_first": REAL,
    "t_last": REAL,
    "n_chunks": WHOLE,
    "paused_s": REAL,
    "prompt_tokens": WHOLE,
    "cached_tokens": WHOLE,
    "reasoning_tokens": WHOLE,
    "reply_tokens": WHOLE,
    "finish_reason": TEXT,
    "drafts": WHOLE,
    "draft_tokens": WHOLE,
    "accepted_tokens": WHOLE,
    "accepted_k": WHOLE,
    "eligible_k": WHOLE,
    "reply_token_sha256": TEXT,
    "score": REAL,
    "error": TEXT,
}
RUNS = {
    "source_kind": TEXT,
    "study": TEXT,
    "study_kind": TEXT,
    "replicate": WHOLE,
    "order": WHOLE,
    "fingerprint": TEXT,
    "of_known_answer": TRUTH,
    "workload_label": TEXT,
    "reasoning": TEXT,
    "streams": WHOLE,
    "requests": WHOLE,
    "requests_recorded": WHOLE,
    "errors": WHOLE,
    "max_tokens": WHOLE,
    "sampling": TEXT,
    "prompts": WHOLE,
    "prompts_sha256": TEXT,
    "model": TEXT,
    "model_source": TEXT,
    "model_revision": TEXT,
    "tokenizer_revision": TEXT,
    "draft_revision": TEXT,
    "precision": TEXT,
    "speculative": TEXT,
    "method": TEXT,
    "k": WHOLE,
    "engine": TEXT,
    "engine_version": TEXT,
    "attention_backend": TEXT,
    "corrections": TEXT,
    "server_arguments": TEXT,
    "server_environment": TEXT,
    "log_interval_s": REAL,
    "time_zone": TEXT,
    "clock_offset_s": REAL,
    "hardware": TEXT,
    "gpus": TEXT,
    "driver": TEXT,
    "git_commit": TEXT,
    "git_dirty": TRUTH,
    "server_start_s": REAL,
    "start": REAL,
    "end": REAL,
    "first_sent": REAL,
    "last_received": REAL,
}
CHECKS = {
    "check": TEXT,
    "expected": REAL,
    "found": REAL,
    "residual": REAL,
    "unit": TEXT,
    "tolerance": REAL,
    "status": TEXT,
    "reason": TEXT,
}
RUN = {"server": TEXT, "boot": TEXT, "attempt": WHOLE, "run": TEXT}
"""What names a run in the tables of a study."""
OF_RUN = {"reasoning": TEXT, "streams": WHOLE, "order": WHOLE, "engine_version": TEXT}
"""Columns of the table runs that a study's counters have as well."""
TABLES = {"intervals": INTERVALS, "counters": COUNTERS, "requests": REQUESTS}
"""The tables that `draftmeter read` makes: rows say their source."""


def _of_runs(columns: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    return {"source": TEXT, **RUN, "workload": TEXT, **{name: kind for name, kind in columns.items() if name != "source"}}


STUDY_TABLES = {
    "runs": _of_runs(RUNS),
    "counters": _of_runs({**OF_RUN, **{name: kind for name, kind in COUNTERS.items() if name != "engine"}}),
    "intervals": _of_runs(INTERVALS),
    "requests": _of_runs(REQUESTS),
    "checks": {**RUN, **CHECKS},
}
"""The tables of a study: rows say their run as well, and counters are of all engines together."""


def position_names(k: int, kind: str = ACCEPTED) -> list[str]:
    """accepted_1 ... accepted_K, or the same of another `kind`."""
    return [f"{kind}_{position}" for position in range(1, k + 1)]


def schema_of(columns: Mapping[str, pa.DataType], k: int) -> pa.Schema:
    """The schema of a table for drafts of up to `k` tokens."""
    fields: list[tuple[str, pa.DataType]] = []
    for name, kind in columns.items():
        names = position_names(k, PER_POSITION[name]) if name in PER_POSITION else [name]
        fields += [(column, kind) for column in names]
    return pa.schema(fields)


def table_of(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, pa.DataType], k: int) -> pa.Table:
    """Rows as a table; what a row lacks is null, and a key that is no column is an error."""
    schema = schema_of(columns, k)
    for row in rows:
        if strange := row.keys() - set(schema.names):
            raise AssertionError(f"not a column of this table: {sorted(strange)}")
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], kind) for name, kind in zip(schema.names, schema.types, strict=True)}
    )


def widened(batch: "pa.Table | pa.RecordBatch", schema: pa.Schema) -> pa.Table:
    """The batch with exactly the columns of `schema`, in its order.

    Those that it lacks are null.
    """
    n, names = batch.num_rows, set(batch.schema.names)
    columns = [batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(n, field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def positions_of(names: Iterable[str]) -> int:
    """K of a table with these columns: how many of accepted_1, accepted_2, ... there are."""
    return sum(name.startswith("accepted_") and name.removeprefix("accepted_").isdecimal() for name in names)
