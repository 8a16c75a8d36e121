"""Start one vLLM server in a process group of its own, wait until it is healthy, and end the whole
group whatever happens.
"""

import asyncio
import ctypes
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from draftmeter.formats.startup import Startup, read_startup
from draftmeter.measure.http import NotAnswered, ask, session_to
from draftmeter.measure.progress import say
from draftmeter.strict import canonical_json
from draftmeter.study.plan import BootPlan

HOST = "127.0.0.1"
TRIES = 20


class PortTaken(Exception):
    """Why a port cannot be had, as the end of a sentence that names it."""


@contextmanager
def reserved_port(wanted: int | None) -> Iterator[int]:
    """The `wanted` port, or any free one, reserved for the time of the block. Raises
    :class:`PortTaken`.

    A server binds its port long after it was told which. Until then the port is free to everyone:
    boots keep out of each other's way by a lock on a file of the port's number, which the kernel
    gives back when its process ends. Another program may still take it; the server then says so.
    """
    lock = _locked(wanted)
    try:
        yield int(Path(lock.lock_file).stem)
    finally:
        lock.release()


def shared_folder() -> Path:
    """Where the boots of one user on this machine meet; it is made if it is not there."""
    folder = Path(tempfile.gettempdir()) / f"draftmeter-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _locked(wanted: int | None) -> FileLock:
    for _ in range(TRIES):
        with socket.socket() as probe:
            # As the server itself does: a port is not taken because connections of an earlier boot
            # still linger on it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, wanted or 0))
            except OSError as error:
                raise PortTaken(f"is taken by another process ({error.strerror})") from error
            lock = FileLock(shared_folder() / f"{probe.getsockname()[1]}.lock", fallback_to_soft=False)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                if wanted is not None:
                    raise PortTaken("is reserved by another boot of this machine, whose server is starting") from None
            else:
                return lock
    raise PortTaken(f"none of {TRIES} that were free could be reserved")


STARTS = 3
HEALTH_TIMEOUT_S = 2.0
STOP_WAIT_S = 20.0
TAIL_LINES = 15
ADDRESS_TAKEN = os.strerror(errno.EADDRINUSE).lower()
# The path of a socket has at most 107 bytes, of which vLLM adds 37 to the folder.
LONGEST_FOLDER = 70

_NAMED_ERROR = re.compile(r"\b[A-Za-z.]*(?:Error|Exception): .{1,300}")


class ServerError(RuntimeError):
    """A server that did not start or did not stay: which one, why, and the end of its log."""


@dataclass(frozen=True)
class RunningServer:
    """A healthy server. `log` is the file with everything it printed."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    command: list[str]
    environment: dict[str, str]
    """Only what was set on top of the caller's environment."""
    start_s: float
    """Seconds from launch to health."""
    startup: Startup
    """What the server said about itself until it was healthy."""

    def died(self) -> str | None:
        """How the server ended, with the tail of its log; None while it runs."""
        code = self.process.poll()
        return None if code is None else f"{_ending(code)}\n{tail(self.log)}"


def server_command(plan: BootPlan, model_path: str, port: int, draft_path: str | None = None) -> list[str]:
    """The command line that starts the server of a plan. `{python}` and `{prefix}` stand for this
    interpreter and its prefix.
    """
    server = plan.server
    command = [_expand(part) for part in server.command]
    command += ["--model", model_path, "--served-model-name", plan.model_name, "--host", HOST, "--port", str(port)]
    if server.drafting is not None:
        config = canonical_json(server.drafting.for_server(draft_path))
        command += ["--speculative-config", config, "--per-request-spec-decode-metrics", "detailed"]
    for name, value in server.arguments.items():
        if value is True:
            command.append(f"--{name}")
        elif value is False:
            command.append(f"--no-{name}")
        else:
            command += [f"--{name}", str(value)]
    return command


def server_environment(plan: BootPlan) -> dict[str, str]:
    """The variables that the server gets on top of the caller's. Its log speaks UTC, so that no
    time stamp is ambiguous.
    """
    environment = {name: _expand(value) for name, value in plan.server.environment.items()}
    environment |= {
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_LOG_STATS_INTERVAL": f"{plan.server.log_interval_s:g}",
        "TZ": "UTC",
    }
    environment |= {"VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1"}
    if not plan.server.corrections:
        environment["VLLM_PLUGINS"] = ""
    preload = environment.get("LD_PRELOAD", "")
    for library in filter(None, preload.split(":")):
        if not Path(library).exists():
            raise ServerError(f"servers.{plan.server_name}.environment.LD_PRELOAD: {library} does not exist")
    return environment


def _inherited() -> dict[str, str]:
    """The caller's environment without vLLM's own variables: what decides a measurement stands in
    the config.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}


@contextmanager
def running_server(plan: BootPlan, model_path: str, log: Path, draft_path: str | None = None) -> Iterator[RunningServer]:
    """A healthy server for the time of the block. Raises :class:`ServerError` when it does not
    become healthy.

    The whole process group is ended when the block is left, also by an exception, Ctrl-C or SIGTERM
    (which the caller turns into an exception). A server that loses its port to another program before
    it has bound it is started again on another one, unless the config names the port.
    """
    with ExitStack() as running:
        for tries_left in reversed(range(STARTS)):
            try:
                server = running.enter_context(_started(plan, model_path, log, draft_path))
                break
            except _PortLost as lost:
                if plan.server.port is not None or not tries_left:
                    raise ServerError(str(lost)) from lost
                say(f"{plan.server_name}/{plan.boot}: another program took the server's port; it starts again on another one")
        yield server


class _PortLost(Exception):
    """The server found its port taken when it wanted to bind it."""


@contextmanager
def _started(plan: BootPlan, model_path: str, log: Path, draft_path: str | None) -> Iterator[RunningServer]:
    name = f"{plan.server_name}/{plan.boot}"
    with _port(plan) as port, _own_folder() as own:
        command = server_command(plan, model_path, port, draft_path)
        environment = own | server_environment(plan)
        log.parent.mkdir(parents=True, exist_ok=True)
        say(f"{name}: server starts on port {port} (its log: {log})")
        started = time.monotonic()
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**_inherited(), **environment},
                    start_new_session=True,
                    preexec_fn=_end_with_parent,  # noqa: PLW1509  no threads run yet
                )
            except OSError as error:
                raise ServerError(f"server {name}: cannot run {command[0]!r}: {error.strerror}") from error
        try:
            url = f"http://{HOST}:{port}"
            asyncio.run(_wait_until_healthy(name, url, process, log, plan.server.start_timeout_s))
            start_s = time.monotonic() - started
            say(f"{name}: healthy after {start_s:.0f} s")
            startup = read_startup(log.read_text(errors="replace"))
            yield RunningServer(url, process, log, command, environment, start_s, startup)
        finally:
            _end_group(process)
            say(f"{name}: server stopped")


@contextmanager
def _port(plan: BootPlan) -> Iterator[int]:
    try:
        with reserved_port(plan.server.port) as port:
            yield port
    except PortTaken as taken:
        raise ServerError(
            f"servers.{plan.server_name}.port: {plan.server.port or 'any free one'} {taken}; "
            "end that process, choose another port, or use null for any free one"
        ) from taken


@contextmanager
def _own_folder() -> Iterator[dict[str, str]]:
    """Variables that give a server a folder of its own for temporary files, removed at its end.

    Compiled kernels stay where all boots find them, or each start would compile them again, for
    minutes: PyTorch and Triton write each of them under another name and rename it. vLLM's own
    cache (VLLM_CACHE_ROOT) is of such files but for one small index, written in place once all is
    compiled: a boot that reads it in that very moment fails to start, and a rerun succeeds.
    """
    with tempfile.TemporaryDirectory(prefix="draftmeter-", ignore_cleanup_errors=True) as folder:
        kernels = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(shared_folder() / "torchinductor"))
        short = len(folder) <= LONGEST_FOLDER
        yield {"TORCHINDUCTOR_CACHE_DIR": kernels, **({"TMPDIR": folder} if short else {})}


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """For an error message: the first errors that a server's log names, and its last lines."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    named = list(
        dict.fromkeys(match.group() for line in text if " WARNING " not in line and (match := _NAMED_ERROR.search(line)))
    )[:3]
    errors = "".join(f"  ! {error}\n" for error in named)
    return f"{log} says:\n{errors}" + "\n".join(f"  | {line}" for line in text[-lines:])


async def _wait_until_healthy(name: str, url: str, process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    said = time.monotonic()
    async with session_to() as session:
        while time.monotonic() < deadline:
            code = process.poll()
            if code is not None:
                ending = f"server {name}: {_ending(code)} before it was healthy; {tail(log)}"
                lost_port = ADDRESS_TAKEN in log.read_text(errors="replace").lower()
                raise _PortLost(ending) if lost_port else ServerError(ending)
            with suppress(NotAnswered):
                await ask(session, f"{url}/health", HEALTH_TIMEOUT_S)
                return
            if time.monotonic() - said > 10:
                said = time.monotonic()
                say(f"{name}: still starting, gives up in {deadline - said:.0f} s")
            await asyncio.sleep(0.5)
    raise ServerError(f"server {name}: not healthy after {timeout_s:.0f} s (start_timeout_s); {tail(log)}")


def _ending(code: int) -> str:
    return f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the group, then SIGKILL to whatever is left of it, including children that left
    the group.

    A second Ctrl-C or SIGTERM must not cut this short: it would leave the server behind.
    """
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        family = _descendants(process.pid)
        _signal_group(process.pid, signal.SIGTERM)
        # One that was stopped (SIGSTOP) hears it only when it goes on.
        _signal_group(process.pid, signal.SIGCONT)
        deadline = time.monotonic() + STOP_WAIT_S
        while time.monotonic() < deadline and (process.poll() is None or _group_lives(process.pid)):
            time.sleep(0.1)
        _signal_group(process.pid, signal.SIGKILL)
        for child in family:
            with suppress(psutil.Error):
                child.kill()
        process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end_with_parent() -> None:
    """Ask Linux to send SIGTERM to the server if this process is killed before it can stop the
    server itself.
    """
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _expand(text: str) -> str:
    return text.replace("{python}", sys.executable).replace("{prefix}", sys.prefix)
