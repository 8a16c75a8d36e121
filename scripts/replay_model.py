"""Ask a running server for replies of a trained model, replay them offline, and say whether both count the same.

    python scripts/replay_model.py MODEL URL --prompts models/small-moe/prompts/code.jsonl [--reasoning] [--out FILE]

Prints one JSON object: requests that agree at every step but the last, acceptance as counted and as replayed, acceptance
of independently generated replies, and for questions the share answered correctly. Exits 1 below 99% agreement.

A server without speculation has nothing to replay: with --out FILE it only writes its replies, and a later call with
--compare FILE says how many are the same token by token (use --temperature 0).
"""

import argparse
import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from draftmeter.measure.http import ask, session_to
from draftmeter_training.agreement import ServedReply, agreement, independent
from draftmeter_training.export import read_model
from draftmeter_training.reference import SamplingRule
from draftmeter_training.tokens import read_tokenizer

TIMEOUT_S = 600.0


def main() -> int:
    """Parse, ask, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of the checkpoint that the server serves")
    parser.add_argument("url", help="the server, such as http://127.0.0.1:8000")
    parser.add_argument("--prompts", type=Path, required=True, help="JSON lines with the key prompt")
    parser.add_argument("--reasoning", action="store_true", help="switch the thinking part on")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--out", type=Path, help="write what the server said, one JSON object a line")
    parser.add_argument("--compare", type=Path, help="replies written by --out before: how many are the same")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.prompts.read_text().splitlines()][: options.requests]
    rule = SamplingRule(options.temperature, options.top_p)
    name = json.loads(_open(f"{options.url}/v1/models"))["data"][0]["id"]
    with ThreadPoolExecutor(options.streams) as streams:
        served = list(streams.map(lambda item: _ask(options, name, rule, *item), enumerate(rows)))
    if options.out:
        options.out.write_text("".join(json.dumps(vars(reply)) + "\n" for reply in served))
    if not any(reply.accepted for reply in served):
        print("the server does not speculate: nothing to replay")
        return 0 if options.out else 1
    model, tokenizer = read_model(options.model), read_tokenizer(options.model)
    found = agreement(model, tokenizer, served, rows)
    found["independent"] = independent(model, [reply.prompt for reply in served], rule, options.max_tokens)
    if options.compare:
        before = [json.loads(line)["reply"] for line in options.compare.read_text().splitlines()]
        found["same_replies"] = sum(reply.reply == other for reply, other in zip(served, before, strict=True))
    print(json.dumps(found, indent=1))
    return 0 if found["agree"] >= 0.99 * found["requests"] else 1


def _ask(options: argparse.Namespace, name: str, rule: SamplingRule, number: int, row: dict[str, Any]) -> ServedReply:
    body = {
        "model": name,
        "messages": [{"role": "user", "content": row["prompt"]}],
        "temperature": rule.temperature,
        "top_p": rule.top_p,
        "top_k": rule.top_k,
        "max_tokens": options.max_tokens,
        "seed": number,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": options.reasoning},
    }
    answer = json.loads(_open(f"{options.url}/v1/chat/completions", body))
    counted = ((answer.get("metrics") or {}).get("speculative_decoding") or {}).get("per_step_accepted") or []
    return ServedReply(answer["prompt_token_ids"], answer["choices"][0]["token_ids"], counted)


def _open(url: str, body: dict[str, Any] | None = None) -> bytes:
    async def answer() -> bytes:
        async with session_to() as session:
            return await ask(session, url, TIMEOUT_S, body=body)

    return asyncio.run(answer())


if __name__ == "__main__":
    sys.exit(main())
