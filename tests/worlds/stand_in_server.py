"""A small process that speaks a vLLM server's HTTP interface, so that failures of a server can be tested in seconds.

It decodes nothing: each reply has the tokens that its seed says. Run as
``python stand_in_server.py MODE --model M --served-model-name N --host H --port P ...``, MODE being one of
good, exits, never_healthy, stubborn (ignores SIGTERM, has a child in another session), dies_after_20 (requests),
always_busy, refuses (answers every request with HTTP 400), slow (ten seconds a step),
garbled (streams what is no JSON); killed_at_20, hangs_at_20 (requests: SIGKILL and SIGSTOP to itself).

Or a fault of some requests, ``KIND@N``: of every N-th, KIND being status-400 (any number), reset, empty (no event), cut,
done (no reply before [DONE]), no_metrics, null_metrics, strange_counts. Or ``metrics-KIND@S``: /metrics fails for the
first S seconds, KIND being status-500, garbage, binary, slow. Or ``others@N``: beside every N-th request another
client's is served. Or ``address_taken@FILE``: the first start, which makes FILE, finds its port taken.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from aiohttp import web

from made_up_server import ServerState, engine_line, exposition, speculation_line

K = 3


class StandIn:
    def __init__(self, mode: str, log_interval_s: float) -> None:
        self.mode, _, measure = mode.partition("@")
        self.measure = float(measure or 0)
        """N or S of a mode that has one."""
        self.asked = 0
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
        if self.mode.startswith("metrics-") and time.time() - self.started < self.measure:
            kind = self.mode.removeprefix("metrics-")
            if kind == "slow":
                await asyncio.sleep(2.5)
            elif kind == "binary":
                return web.Response(body=b"\xff\xfe")
            elif kind == "garbage":
                return web.Response(text="<html>busy</html>\n")
            else:
                return web.Response(status=500)
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
        self.asked += 1
        if self.asked >= 20 and self.mode in ("killed_at_20", "hangs_at_20"):
            os.kill(os.getpid(), signal.SIGKILL if self.mode == "killed_at_20" else signal.SIGSTOP)
        fault = self.mode if self.measure and self.asked % self.measure == 0 else ""
        if (answer := _planted(request, fault)) is not None:
            return answer
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
            if fault == "cut":
                self.running -= 1
                reset(request)
                return response
        histogram = [steps.count(k) for k in range(K + 1)]
        self.histogram = [a + b for a, b in zip(self.histogram, histogram, strict=True)]
        self.generated += tokens
        self.prompted += 10
        self.answered += 1
        if fault == "others":
            self.generated += tokens
            self.answered += 1
        self.running -= 1
        await response.write(_event({"choices": [{"delta": {}, "finish_reason": "length"}]}))
        await response.write(_event(_spoiled(_last_chunk(tokens, steps, histogram), fault)))
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


def _planted(request: web.Request, fault: str) -> web.Response | None:
    """The answer of a request that fails before it is decoded; None for another."""
    if fault.startswith("status-"):
        return web.json_response({"error": {"message": "planted refusal"}}, status=int(fault.removeprefix("status-")))
    if fault == "reset":
        reset(request)
        return web.Response()
    if fault in ("empty", "done"):
        return web.Response(text="data: [DONE]\n\n" if fault == "done" else "", content_type="text/event-stream")
    return None


def reset(request: web.Request) -> None:
    """Break the connection off as a dying machine does."""
    request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()


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


def _spoiled(chunk: dict, fault: str) -> dict:
    if fault == "no_metrics":
        del chunk["metrics"]
    elif fault == "null_metrics":
        chunk["metrics"]["speculative_decoding"] = None
    elif fault == "strange_counts":
        chunk["metrics"]["speculative_decoding"]["acceptance_histogram"] = ["many"]
    return chunk


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
    if arguments.mode.startswith("address_taken@"):
        planted = Path(arguments.mode.partition("@")[2])
        if not planted.exists():
            planted.touch()
            print(f"OSError: [Errno 98] Address already in use: ('127.0.0.1', {arguments.port})", flush=True)
            sys.exit(1)
        arguments.mode = "good"
    if arguments.mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    asyncio.run(serve(arguments.mode, arguments.host, arguments.port))


if __name__ == "__main__":
    main()
