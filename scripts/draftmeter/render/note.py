"""The research note: Markdown from the facts alone, and from that Markdown the HTML and the PDF."""

import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pypandoc  # type: ignore[import-untyped]
import typst
from markupsafe import Markup

from draftmeter.facts import CalibrationRow, Fact, SetupRow, Table1Row
from draftmeter.render.environment import escape_markdown, markdown_environment, render_template
from draftmeter.render.facts import PRODUCTION_INTERVALS, Facts, RenderError
from draftmeter.render.numbers import plain

# vLLM's own default of VLLM_LOG_STATS_INTERVAL; the note says so when a study asked for more lines.
DEFAULT_LOG_INTERVAL_S = 10.0
# Only what the template uses: no raw HTML, no TeX, no attributes, so that a slip in escaping stays harmless.
MARKDOWN = (
    "markdown_strict-raw_html+pipe_tables+table_captions+implicit_figures+citations+all_symbols_escapable"
    "+intraword_underscores+auto_identifiers+space_in_atx_header+blank_before_header+blank_before_blockquote"
)
# Typst stamps files with the time of day unless it is told another; this one only has to be the same everywhere.
TIMESTAMP = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StreamsRow:
    """One rung of a workload that ran at several numbers of streams."""

    label: str
    streams: int
    subject: str


@dataclass(frozen=True)
class FactRow:
    """One line of the appendix: the key below its subject, the fact, and the names of its method and reason."""

    quantity: str
    fact: Fact
    notes: str


@dataclass(frozen=True)
class FactGroup:
    """The facts of one subject with those nested in it."""

    subject: str
    rows: list[FactRow]


def render_note(facts: Facts, table1_markdown: str, figure: str, template: Path) -> str:
    """The note as Markdown. `figure` is the file name of Figure 1, beside the note."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", figure):
        raise RenderError(f"figure file: found {figure!r}; needs a plain file name beside the note")
    if facts.study.kind == "known_answer" and not facts.calibration:
        raise RenderError("facts.json, calibration: found no row; a known-answer study compares with its exact figures")
    context = note_context(facts) | {"table1": Markup(table1_markdown.strip()), "figure": Markup(figure)}
    text = render_template(markdown_environment(template.parent), template.name, **context)
    return re.sub(r"\n{3,}", "\n\n", text)


def note_context(facts: Facts) -> dict[str, Any]:
    """Every name that the template may use; all figures come from `facts`."""
    groups, methods, reasons, definitions = fact_appendix(facts)
    streams = _streams(facts)
    lowest, highest = _extreme_workloads(facts)
    return {
        "study": facts.study,
        "facts": facts,
        "fact": facts.fact,
        "calibrating": facts.study.kind == "known_answer",
        "setup": facts.setup,
        "setup_table": _setup_table(facts),
        "production": facts.production,
        "controlled": facts.controlled,
        "lowest": lowest,
        "highest": highest,
        "k": facts.positions(facts.production.workload),
        "intervals": PRODUCTION_INTERVALS,
        "thresholds": [PRODUCTION_INTERVALS, *facts.parts_of(PRODUCTION_INTERVALS, r"t\d+")],
        "spread_reasons": _spread_reasons(facts),
        "lags": [name for name in facts.quantities(PRODUCTION_INTERVALS) if name.startswith("autocorrelation")],
        "streams": [row for row in streams if sum(other.label == row.label for other in streams) > 1],
        "stream_numbers": sorted({row.streams for row in streams}),
        "default_log_interval_s": DEFAULT_LOG_INTERVAL_S,
        "unknown_facts": sum(fact.value is None for fact in facts.facts.values()),
        "fact_groups": groups,
        "methods": methods,
        "reasons": reasons,
        "definitions": definitions,
        "separator": separator,
        "names": server_names,
        **_calibration_summary(facts.calibration),
        "checks": facts.checks,
        "checks_failed": sum(check.failed for check in facts.checks.values()),
        "checks_unknown": sum(check.unknown for check in facts.checks.values()),
    }


def fact_appendix(
    facts: Facts,
) -> tuple[list[FactGroup], list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
    """All facts in groups, then (name, text) of each method and each reason, then (quantity, definition).

    A text that many facts share is printed once: methods are named M1, M2, ... and reasons U1, U2, ...; a definition
    stands beside the first quantity that has it.
    """
    methods: dict[str, str] = {}
    reasons: dict[str, str] = {}
    definitions: dict[tuple[str, str], str] = {}
    groups: dict[str, list[FactRow]] = {}
    for key, fact in facts.facts.items():
        subject, _, quantity = key.partition(".")
        notes = methods.setdefault(fact.method, f"M{len(methods) + 1}")
        if fact.unknown is not None:
            notes += ", " + reasons.setdefault(fact.unknown, f"U{len(reasons) + 1}")
        groups.setdefault(subject, []).append(FactRow(quantity, fact, notes))
        definitions.setdefault((quantity.rpartition(".")[2], fact.definition), quantity)
    return (
        [FactGroup(subject, rows) for subject, rows in groups.items()],
        [(name, text) for text, name in methods.items()],
        [(name, text) for text, name in reasons.items()],
        [(quantity, definition) for (_, definition), quantity in definitions.items()],
    )


def note_html(markdown: str, css: Path, bibliography: Path, figure: Path) -> str:
    """The note as one HTML file that needs no other: style and figure are embedded."""
    arguments = [*_citations(bibliography), "--embed-resources", f"--css={css.resolve()}"]
    arguments += [f"--resource-path={figure.resolve().parent}", "--metadata=lang:en"]
    return _pandoc(markdown, "html5", arguments)


def note_pdf(markdown: str, template: Path, bibliography: Path, figure: Path) -> bytes:
    """The note as PDF through typst. Same Markdown and figure, same bytes: no date, only fonts that typst brings."""
    source = _pandoc(markdown, "typst", [*_citations(bibliography), f"--template={template.resolve()}"])
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / "note.typ"
        main.write_text(source)
        (Path(folder) / figure.name).write_bytes(figure.read_bytes())
        try:
            return bytes(typst.compile(str(main), root=folder, ignore_system_fonts=True, timestamp=TIMESTAMP))
        except typst.TypstError as error:
            raise RenderError(f"the PDF of the note cannot be made with {template.name}: {error}") from error


def separator(loop: Any) -> Markup:
    """What follows an item of a running list: comma, `and`, or nothing."""
    if loop.last:
        return Markup("")
    return Markup(" and " if loop.revindex == 2 else ", ")


def server_names(rows: list[SetupRow]) -> Markup:
    """The servers of `rows` as a running list, escaped."""
    names = [escape_markdown(row.server) for row in rows]
    return Markup(" and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names))


def _pandoc(markdown: str, target: str, arguments: list[str]) -> str:
    arguments = ["--standalone", "--wrap=none", "--shift-heading-level-by=-1", *arguments]
    try:
        return str(pypandoc.convert_text(markdown, target, format=MARKDOWN, extra_args=arguments))
    except RuntimeError as error:
        raise RenderError(f"pandoc cannot make {target} from the note: {error}") from error


def _citations(bibliography: Path) -> list[str]:
    return ["--citeproc", f"--bibliography={bibliography.resolve()}"]


def _streams(facts: Facts) -> list[StreamsRow]:
    """Every number of streams of every workload of Table 1, in its order."""
    return [
        StreamsRow(row.label, int(subject.rpartition("_")[2]), subject)
        for row in facts.table1
        for subject in facts.parts_of(row.workload, r"streams_\d+")
    ]


def _extreme_workloads(facts: Facts) -> tuple[Table1Row | None, Table1Row | None]:
    """The controlled workloads with the smallest and the largest accepted part, where known."""
    known = []
    for row in facts.controlled:
        value = facts.fact(row.workload, "accepted_over_drafted").value
        if value is not None:
            known.append((value, row))
    if not known:
        return None, None
    return min(known, key=lambda pair: pair[0])[1], max(known, key=lambda pair: pair[0])[1]


def _spread_reasons(facts: Facts) -> list[str]:
    """Why figures on the spread over intervals have no confidence interval; each reason once."""
    names = ("p10", "p90", "sd_pp", "sampling_sd_pp", "variance_ratio")
    spread = [facts.fact(PRODUCTION_INTERVALS, name) for name in names]
    reasons = [fact.unknown for fact in spread if fact.value is not None and fact.low is None]
    return [reason.removeprefix("no interval: ") for reason in dict.fromkeys(reasons) if reason is not None]


def _setup_table(facts: Facts) -> list[tuple[str, list[str]]]:
    """Properties down, servers across; a property beyond the contract is shown under its own key."""
    names = {
        "model": "Model",
        "precision": "Precision",
        "method": "Draft method",
        "k": "Draft tokens per step",
        "engine_version": "Engine version",
        "attention_backend": "Attention backend",
        "log_interval_s": "Log interval (s)",
        "corrections": "Corrections active",
        "starts": "Starts",
        "attempts": "Boots that took several attempts",
        "hardware": "Hardware",
        "driver": "Driver",
        "model_revision": "Model revision",
        "git_commit": "Commit of the instrument",
    }
    rows = [row.model_dump() for row in facts.setup]
    found = {key for row in rows for key in row} - {"server"}
    keys = [key for key in names if key in found] + sorted(found - set(names))
    return [(names.get(key, key), [_setting(row.get(key)) for row in rows]) for key in keys]


def _setting(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(map(_setting, value)) or "none"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plain(value)
    return str(value)


def _calibration_summary(rows: list[CalibrationRow]) -> dict[str, Any]:
    return {
        "passed": sum(row.status == "ok" for row in rows),
        "failed": sum(row.status == "failed" for row in rows),
        "not_compared": sum(row.status == "unknown" for row in rows),
        "compared": sum(row.status != "unknown" for row in rows),
        "largest_z": max((abs(row.z) for row in rows if row.z is not None), default=None),
    }
