"""Ask a live server for /metrics and /version: one connection a question, a limit on its time, and no word of a secret."""

import http.client
import json
import socket
import ssl
import time

from draftmeter.formats.families import relevant_lines
from draftmeter.formats.metrics import Metrics, read_metrics
from draftmeter.measure.watch.address import Address

LIMIT_BYTES = 2**26
CHUNK_BYTES = 2**18


class ScrapeError(Exception):
    """Why an answer could not be had. The text quotes nothing that a server said, so it may be stored.

    `passing`: the server may not have started yet; another address or key would not help.
    """

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


class Scraper:
    """Asks the server at `address`; each answer must be complete within `timeout_s` seconds."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        self._headers = {"Accept": "text/plain", "User-Agent": "draftmeter", "Connection": "close"}
        if address.authorization is not None:
            self._headers["Authorization"] = address.authorization

    def reading(self) -> tuple[str, Metrics]:
        """The lines of /metrics that draftmeter uses, unchanged, and what they say. Raises :class:`ScrapeError`."""
        try:
            text = self._get("/metrics").decode()
        except UnicodeDecodeError:
            raise ScrapeError("the answer is no UTF-8 text", passing=False) from None
        lines = relevant_lines(text)
        reading = read_metrics(lines)
        if not reading.engines:
            raise ScrapeError("the answer holds no metric of vLLM; expected a vLLM server", passing=False)
        if not text.endswith("\n"):
            raise ScrapeError("the answer was cut short: it has no line feed at its end", passing=False)
        return lines, reading

    def version(self) -> str | None:
        """The engine's version as /version gives it; null where there is no such answer."""
        try:
            found = json.loads(self._get("/version"))
        except (ScrapeError, ValueError):
            return None
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, str) and len(version) < 100 else None

    def _get(self, path: str) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        connection = self._connection()
        try:
            connection.request("GET", self._address.path + path, headers=self._headers)
            # Taken now: the library forgets the socket once it knows that the server will close it.
            line = connection.sock
            with connection.getresponse() as response:
                if response.status != http.HTTPStatus.OK:
                    raise _refusal(response.status)
                return _body(line, response, deadline)
        except (OSError, http.client.HTTPException) as error:
            raise ScrapeError(_reason(error, self._timeout_s), passing=True) from None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        address = self._address
        if self._tls is not None:
            return http.client.HTTPSConnection(address.host, address.port, timeout=self._timeout_s, context=self._tls)
        return http.client.HTTPConnection(address.host, address.port, timeout=self._timeout_s)


def _body(line: socket.socket, response: http.client.HTTPResponse, deadline: float) -> bytes:
    parts = []
    size = 0
    # The socket's own limit counts anew with every packet: a server that drips would hold the watch for hours.
    while part := response.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if size > LIMIT_BYTES:
            raise ScrapeError(f"the answer is longer than {LIMIT_BYTES // 2**20} MiB", passing=False)
        line.settimeout(left)
    if response.length:
        raise ScrapeError("the answer broke off", passing=True)
    return b"".join(parts)


def _refusal(status: int) -> ScrapeError:
    named = f"HTTP {status} {http.client.responses.get(status, '')}".strip()
    if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
        return ScrapeError(f"{named}: the server wants another key or none", passing=False)
    if status in range(300, 400):
        return ScrapeError(f"{named}: the server's /metrics is at another address", passing=False)
    return ScrapeError(named, passing=status >= http.HTTPStatus.INTERNAL_SERVER_ERROR)


def _reason(error: Exception, timeout_s: float) -> str:
    """Never the exception's own text for what an HTTP library says: it quotes what it received."""
    if isinstance(error, TimeoutError):
        return f"no whole answer within {timeout_s:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"the answer is no HTTP or broke off ({type(error).__name__})"
