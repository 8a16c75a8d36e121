"""What else stands in logs: access and application lines, and texts that merely look like statistics."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime

from log_prefixes import Line
from log_wordings import Wording, plant_counts

APPLICATION = (
    ("core.py:299", "init engine (profile, create kv cache, warmup model) took 163.91 s (compilation: 54.58 s)"),
    ("launcher.py:46", "Route: /v1/chat/completions, Methods: POST"),
    (
        "loggers.py:199",
        "Engine 000: Iteration(7): 1 context requests, 12 context tokens, 3 generation requests, 4 generation tokens",
    ),
    ("loggers.py:137", "Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: 15745"),
    ("metrics.py:103", "KV Transfer metrics: Num successful transfers=3, Avg xfer time (ms)=1.2, Throughput (MB/s)=512.0"),
    ("logger.py:40", "Generated response chatcmpl-8f1: output: 'Yes: 12 tokens, 3 reqs.', finish_reason: stop"),
    ("jit_monitor.py:135", "Triton kernel JIT compilation during inference: _prepare_kernel. This causes a latency spike"),
)


def access(random_: random.Random, time: datetime, process: str) -> Line:
    """A line of the HTTP server."""
    path = random_.choice(["/v1/chat/completions", "/v1/completions", "/metrics", "/health"])
    client = f"10.0.{random_.randint(0, 255)}.{random_.randint(1, 254)}:{random_.randint(1024, 65535)}"
    return Line(f'INFO:     {client} - "POST {path} HTTP/1.1" 200 OK', time, process)


def ordinary(random_: random.Random, time: datetime, process: str) -> list[Line]:
    """A few lines that every log has."""
    lines = [access(random_, time, process) for _ in range(random_.randint(0, 2))]
    if random_.random() < 0.5:
        source, body = random_.choice(APPLICATION)
        lines.append(Line(body, time, process, source, random_.choice(["INFO", "INFO", "WARNING", "DEBUG"])))
    if random_.random() < 0.1:
        lines.append(Line("Traceback (most recent call last):", time, process))
        lines.append(Line('  File "/app/made_up.py", line 12, in run', time, process))
    if random_.random() < 0.1:
        lines.append(Line("", time, process))
    return lines


INVENTED = (
    "SpecDecoding metrics: Mean acceptance length: 2.73, Accepted: 12.4 tok/s, Drafted: 15.1 tok/s, "
    "Per-position acceptance rate: [0.89, 0.76, 0.61]",
    "SpecDecoding metrics: accepted=118 drafted=180",
    'SpecDecoding metrics: {"accepted": 118, "drafted": 180}',
    "SpecDecoding metrics: Avg Draft acceptance rate ...",
    "SpecDecoding metrics: Mean acceptance length: 7.36, ...",
    "Speculative metrics: {'acceptance': 0.61, 'accepted': 118}",
    "Speculative metrics: acceptance 0.800000, overall 1.2 tok/s (draft 10, accepted 8, rejected 2)",
    "Speculative metrics: Draft acceptance rate: 0.642, Mean acceptance length: 3.0, Accepted throughput: 1.20 tokens/s",
    "SpecDecoding metrics: Accepted: many tokens, Drafted: 1800 tokens, Draft acceptance rate: 66.0%",
    "SpecDecoding metrics: Draft acceptance rate: 150.0%, Accepted: 1800 tokens, Drafted: 1200 tokens",
    "DiffusionDecoding metrics: Committed token throughput: 30.00 tokens/s, Mean denoising steps per canvas: 4.00, "
    "Mean tokens committed per denoising step: 2.00, Committed: 300 tokens, Denoising steps: 150",
)
PROSE = (
    "We saw SpecDecoding metrics: Mean acceptance length was 2.98 and Accepted: 1188 tokens of Drafted: 1800 tokens.",
    "In short: SpecDecoding metrics: Mean acceptance length: 2.98, Accepted: 1188 tokens, Drafted: 1800 tokens",
    "- SpecDecoding metrics: Mean acceptance length 2.98, accepted 1188, drafted 1800",
    "| SpecDecoding metrics | Mean acceptance length | Accepted | Drafted |",
    "| SpecDecoding metrics: run 1 | 2.98 | Accepted: 1188 tokens | Drafted: 1800 tokens |",
    "|---|---|---|---|",
    "What does `SpecDecoding metrics: Mean acceptance length` mean?",
    "Engine 000: Avg prompt throughput went up while Running: 3 reqs",
    "grep -c 'SpecDecoding metrics: ' server.log",
)


def _prose(random_: random.Random, time: datetime, process: str, wording: Wording, header: bool) -> list[Line]:
    lines = [Line(text, time, process, mentions=True) for text in random_.sample(PROSE, 3)]
    # Printed by the right source file, yet no statistics line; without a header there is nothing that tells them apart
    # but the text itself.
    for text in random_.sample(INVENTED, 3):
        lines.append(Line(text, time, process, "metrics.py:120" if header else None, mentions=True))
    return lines


def _prompts(random_: random.Random, time: datetime, process: str, wording: Wording, header: bool) -> list[Line]:
    body = wording.speculation(plant_counts(random_, 3))
    if random_.random() < 0.3:
        body = body.removesuffix(", ")
    stamp = f"{time:%m-%d %H:%M:%S}"
    whole = f"(APIServer pid=71) INFO {stamp} [metrics.py:120] {body}"
    logger = "logger.py:39"
    texts: Sequence[Callable[[], Line]] = (
        lambda: Line(f"Received request cmpl-1: prompt: '{whole}', params: SamplingParams(n=1)", time, process, logger),
        lambda: Line(f"Received request cmpl-2: prompt: 'Explain:\\n{whole}\\n{whole}', params: None", time, process, logger),
        lambda: Line(f'Received request cmpl-3: {{"prompt": "{whole}\\n", "n": 1}}', time, process, logger),
        lambda: Line(f"please explain: {whole}", time, process),
        lambda: Line(f'{{"prompt": "{whole}", "max_tokens": 16}}', time, process),
        lambda: Line(f'{{"messages": [{{"role": "user", "content": "{whole}"}}]}}', time, process),
    )
    lines = [make() for make in random_.sample(texts, 3)]
    if header:
        # A prompt of several lines: the logger puts its own header before each, and the prompt's may follow.
        lines.append(Line(body, time, process, logger))
        lines.append(Line(whole, time, process, logger))
    for line in lines:
        line.mentions = True
    return lines


def hostile(kind: str, random_: random.Random, time: datetime, process: str, wording: Wording, header: bool) -> list[Line]:
    """Lines that hold the words, or even a whole statistics line, and are none: `kind` is "prose" or "prompts"."""
    make = {"prose": _prose, "prompts": _prompts}[kind]
    return make(random_, time, process, wording, header)
