"""A small process that speaks a vLLM server's HTTP interface, so that failures of a server can be tested in seconds.

It decodes nothing: each reply has the tokens that its seed says. Run as
``python stand_in_server.py MODE --model M --served-model-name N --host H --port P ...``, MODE being one of
good, exits, never_healthy, stubborn (ignores SIGTERM, has a child in another session), dies_after_20 (requests),
always_busy, refuses (answers every request with HTTP 400), slow (ten seconds a step),
garbled (streams what is no JSON).
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

from aiohttp import web

from made_up_server import ServerState, engine_line, exposition, speculation_line

K = 3


class StandIn:
    def __init__(self, mode: str, log_interval_s: float) -> None:
        self.mode = mode
        self.log_interval_s = log_interval_s
        self.started = time.time()
        self.histogram = [0] * (K + 1)
        self.logged = [0] * (K + 1)
        self.generated = self.prompted = self.answered = self.running = 0

    def state(self) -> ServerState:
        return ServerState(
            histogram=list(self.histogram),
            generation_tokens=self.generated,
            prompt_tokens=self.prompted,
            finished={"stop": 0, "length": self.answered},
            running=self.running + (self.mode == "always_busy"),
        )

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=exposition(self.state(), start_time=self.started))

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.mode == "never_healthy" else 200)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self.mode == "refuses":
            return web.json_response({"error": {"message": "no such template argument"}}, status=400)
        if self.mode == "dies_after_20" and self.answered >= 20:
            print("RuntimeError: planted death", flush=True)
            os._exit(3)
        if self.mode == "garbled":
            return web.Response(text="data: {no json\n\n", content_type="text/event-stream")
        self.running += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        rng = random.Random(body["seed"])
        steps = [rng.randrange(K + 1) for _ in range(6)]
        tokens = 1 + sum(step + 1 for step in steps)
        for step in [0, *steps]:
            choice = {"delta": {"content": "x" * (step + 1)}, "token_ids": [step] * (step + 1)}
            await response.write(_event({"choices": [choice]}))
            await asyncio.sleep(10 if self.mode == "slow" else 0.002)
        histogram = [steps.count(k) for k in range(K + 1)]
        self.histogram = [a + b for a, b in zip(self.histogram, histogram, strict=True)]
        self.generated += tokens
        self.prompted += 10
        self.answered += 1
        self.running -= 1
        await response.write(_event({"choices": [{"delta": {}, "finish_reason": "length"}]}))
        await response.write(_event(_last_chunk(tokens, steps, histogram)))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def log_statistics(self) -> None:
        while True:
            await asyncio.sleep(self.log_interval_s)
            new = [a - b for a, b in zip(self.histogram, self.logged, strict=True)]
            self.logged = list(self.histogram)
            if any(new):
                stamp = time.strftime("%m-%d %H:%M:%S")
                print(engine_line(stamp, running=self.running), speculation_line(stamp, new), sep="\n", flush=True)


def _event(data: dict) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _last_chunk(tokens: int, steps: list[int], histogram: list[int]) -> dict:
    acceptance = {
        "acceptance_histogram": histogram,
        "num_spec_steps": len(steps),
        "num_draft_tokens": K * len(steps),
        "num_accepted_draft_tokens": sum(steps),
        "per_step_accepted": steps,
        "per_step_drafted": [K] * len(steps),
    }
    usage = {"prompt_tokens": 10, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 0}}
    return {"choices": [], "usage": usage, "metrics": {"speculative_decoding": acceptance}}


async def serve(mode: str, host: str, port: int) -> None:
    stand_in = StandIn(mode, float(os.environ["VLLM_LOG_STATS_INTERVAL"]))
    app = web.Application()
    app.add_routes(
        [
            web.get("/health", stand_in.health),
            web.get("/metrics", stand_in.metrics),
            web.post("/v1/chat/completions", stand_in.chat),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await stand_in.log_statistics()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    arguments, _ = parser.parse_known_args()
    print("variables:", sorted(name for name in os.environ if name.startswith("VLLM_")), flush=True)
    print("Initializing a V1 LLM engine (v0.0.0) with config: a stand-in", flush=True)
    if arguments.mode == "exits":
        print("ValueError: planted reason", flush=True)
        sys.exit(7)
    if arguments.mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    asyncio.run(serve(arguments.mode, arguments.host, arguments.port))


if __name__ == "__main__":
    main()
