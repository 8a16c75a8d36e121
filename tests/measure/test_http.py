"""One way to ask over HTTP: what a failure is called, what is refused, and that nothing of a secret or an answer is quoted."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from draftmeter.measure.http import NotAnswered, ask, parse_address, proxy_for, session_to

SECRET = "sk-a-secret"
OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def raw_server(*answer: bytes, pause_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends these bytes whatever it is asked, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(2**16))
                    try:
                        for part in answer:
                            connection.sendall(part)
                            time.sleep(pause_s)
                    except OSError:
                        pass  # the client has gone

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)


def answer_of(url: str, timeout_s: float = 5.0, key: str | None = None, **how: object) -> bytes:
    async def get() -> bytes:
        async with session_to(parse_address(url, key)) as session:
            return await ask(session, f"{url}/metrics", timeout_s, **how)

    return asyncio.run(get())


def refusal_of(url: str, timeout_s: float = 5.0, **how: object) -> NotAnswered:
    with pytest.raises(NotAnswered) as caught:
        answer_of(url, timeout_s, **how)
    return caught.value


def test_an_answer_is_whole_and_is_asked_for_plainly() -> None:
    with raw_server(OK + b"Set-Cookie: a=b\r\nContent-Length: 5\r\n\r\nwhole") as (url, asked):
        assert answer_of(url, key=SECRET) == b"whole"
    (request,) = asked
    for line in (b"GET /metrics HTTP/1.1", f"Authorization: Bearer {SECRET}".encode(), b"Connection: close"):
        assert line in request.splitlines()
    assert b"gzip" not in request


@pytest.mark.parametrize(
    ("answer", "reason", "passing"),
    [
        (b"", "the answer broke off", True),
        (OK + b"Content-Length: 9\r\n\r\ncut", "the answer broke off", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\ncut", "the answer broke off", True),
        (b"SSH-2.0-OpenSSH\r\n", "the answer is no HTTP or broke off (BadStatusLine)", True),
        (b"HTTP/1.1 503 a secret\r\n\r\n", "HTTP 503 Service Unavailable", True),
        (b"HTTP/1.1 404 a secret\r\n\r\n", "HTTP 404 Not Found", False),
        (b"HTTP/1.1 403 a secret\r\n\r\n", "HTTP 403 Forbidden: the server wants another key or none", False),
        (b"HTTP/1.1 799 a secret\r\n\r\n", "HTTP 799", True),
        (
            b"HTTP/1.1 302 a secret\r\nLocation: http://127.0.0.1:9/a-secret\r\n\r\n",
            "HTTP 302 Found: the server's /metrics is at another address",
            False,
        ),
    ],
)
def test_a_failure_has_words_of_our_own(answer: bytes, reason: str, passing: bool) -> None:
    with raw_server(answer) as (url, _):
        error = refusal_of(url, key=SECRET)
    assert (str(error), error.passing) == (reason, passing)


def test_the_beginning_of_a_refusal_is_kept_apart_from_its_words() -> None:
    with raw_server(b"HTTP/1.1 400 Bad\r\n\r\nparse error") as (url, _):
        error = refusal_of(url)
    assert (str(error), error.status, error.body) == ("HTTP 400 Bad Request", 400, b"parse error")


def test_a_name_that_is_none_and_a_port_without_a_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert str(refusal_of(f"http://localhost:{unused.getsockname()[1]}")) == "connection refused"
    error = refusal_of("http://no-such-host.invalid")
    assert error.passing and "no-such-host" not in str(error)


def test_a_server_that_drips_or_sends_too_much_is_given_up() -> None:
    with raw_server(OK + b"Content-Length: 99\r\n\r\n", *[b"x"] * 20, pause_s=0.1) as (url, _):
        assert str(refusal_of(url, 0.5)) == "no whole answer within 0.5 s"
    with raw_server(OK + b"\r\n", b"x" * (2**20 + 1)) as (url, _):
        assert str(refusal_of(url, limit_bytes=2**20)) == "the answer is longer than 1 MiB"


def test_a_proxy_is_for_other_machines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    monkeypatch.delenv("https_proxy", raising=False)
    found = {
        url: proxy_for(parse_address(url))
        for url in ("http://p:9090", "http://localhost:9090", "http://[::1]:9090", "http://inside.example", "https://p")
    }
    assert list(found.values()) == ["http://proxy:3128", None, None, None, None]
