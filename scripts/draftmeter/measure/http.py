"""Ask servers over HTTP: their addresses, whole answers within limits of time and size, and errors
in words for a user.
"""

import base64
import ipaddress
import os
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

DEFAULT_PORTS = {"http": 80, "https": 443}
API_KEY_VARIABLE = "DRAFTMETER_API_KEY"
LIMIT_BYTES = 2**26
REFUSAL_BYTES = 2**16
# A stream that breaks off, and aiohttp's own complaints (not all of them are ClientErrors).
FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)


class AddressError(ValueError):
    """A URL or an API key that cannot be used: what was found (never the secret), what would be
    right.
    """


class NotAnswered(Exception):
    """Why there is no usable answer, as the end of a sentence that names what was asked.

    The text quotes nothing that a server said, so that it may be stored. `passing`: the server may
    not have started yet; another address or key would not help. `status` and the beginning of the
    `body` are those of an HTTP refusal.
    """

    def __init__(self, reason: str, *, passing: bool = False, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(reason)
        self.passing = passing
        self.status = status
        self.body = body


@dataclass(frozen=True)
class Address:
    """`url` holds no credentials and no /metrics, and is the same for every way to write the same
    server.
    """

    url: str
    host: str
    port: int
    path: str
    """What stands in front of /metrics and /version; empty, or begins with a slash."""
    authorization: str | None = field(default=None, repr=False)
    """The value of the header of that name; never written anywhere."""


def parse_address(text: str, api_key: str | None = None) -> Address:
    """The address in `text` ("http://host:8000", with or without /metrics). Raises
    :class:`AddressError`.

    A name and password in the URL become basic authorization, an `api_key` a bearer token.
    """
    shown = _without_credentials(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"URL: found {shown!r}: {error}; expected one such as http://localhost:8000") from None
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise AddressError(f"URL: found {shown!r}; expected a scheme and a host, such as http://{_guess(shown)}")
    if parts.query or parts.fragment:
        raise AddressError(f"URL: found something after the path of {parts.scheme}://{host}; expected no '?' and no '#'")
    if any(ord(character) <= 32 or ord(character) > 126 for character in parts.path + host):
        raise AddressError(f"URL: found {shown!r}; expected plain characters without spaces")
    authorization = _basic(parts.username, parts.password)
    if api_key:
        authorization = checked_authorization(f"Bearer {api_key}", API_KEY_VARIABLE, instead_of=authorization)
    path = parts.path.rstrip("/").removesuffix("/metrics").rstrip("/")
    name = f"[{host}]" if ":" in host else host
    place = name if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{name}:{port}"
    return Address(
        url=f"{parts.scheme}://{place}{path}",
        host=host,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        path=path,
        authorization=authorization,
    )


def checked_authorization(value: str, variable: str, *, instead_of: str | None) -> str:
    """The Authorization header's `value`, which came from an environment `variable`. Raises
    :class:`AddressError`.

    It is refused if the URL gave one too, or if it cannot be sent: an HTTP library would quote a
    header that it refuses.
    """
    if instead_of is not None:
        raise AddressError(f"found a name in the URL and {variable}; a request can carry only one of them")
    if not value.isascii() or not value.isprintable():
        raise AddressError(f"{variable}: found a line feed or another unprintable character in it")
    return value


def session_to(address: Address | None = None) -> aiohttp.ClientSession:
    """A session for questions with the address's authorization: a connection for each, and nothing
    kept in between.
    """
    headers = {"User-Agent": "draftmeter", "Accept-Encoding": "identity"}
    if address is not None and address.authorization is not None:
        headers["Authorization"] = address.authorization
    connector = aiohttp.TCPConnector(force_close=True)
    return aiohttp.ClientSession(headers=headers, connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def proxy_for(address: Address) -> str | None:
    """The proxy that the environment names for this address; None for this very machine, which no
    proxy knows.
    """
    try:
        loopback = ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        loopback = address.host == "localhost"
    if loopback or proxy_bypass(address.host):
        return None
    proxy = getproxies().get(urlsplit(address.url).scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    timeout_s: float,
    *,
    body: dict[str, Any] | None = None,
    query: dict[str, str] | None = None,
    limit_bytes: int = LIMIT_BYTES,
    redirects: bool = False,
    proxy: str | None = None,
) -> bytes:
    """The whole answer to a GET request, or to a POST of `body` as JSON. Raises
    :class:`NotAnswered`.

    The answer must be complete within `timeout_s` seconds, however a server drips, and have at most
    `limit_bytes` bytes. Redirections are refused unless `redirects` are wanted; they never take the
    authorization to another server.
    """
    address = URL(url, encoded=True)
    try:
        async with session.request(
            "GET" if body is None else "POST",
            address if query is None else address.with_query(query),
            json=body,
            allow_redirects=redirects,
            proxy=proxy,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as response:
            if response.status != HTTPStatus.OK:
                raise _refusal(response.status, address.path, await _beginning(response))
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > limit_bytes:
                    raise NotAnswered(f"the answer is longer than {limit_bytes >> 20} MiB")
            return bytes(data)
    except FAILURES as error:
        raise NotAnswered(reason_of(error, timeout_s), passing=True) from None


def reason_of(failure: Exception, timeout_s: float | None = None) -> str:
    """What went wrong while a server was asked. Never an HTTP library's own text: it quotes what it
    received.
    """
    if isinstance(failure, TimeoutError):
        return "no whole answer in time" if timeout_s is None else f"no whole answer within {timeout_s:g} s"
    if isinstance(failure, aiohttp.ClientConnectorCertificateError):
        cause = failure.certificate_error
        return f"its certificate is not trusted: {getattr(cause, 'verify_message', '') or type(cause).__name__}"
    if isinstance(failure, OSError) and failure.errno is not None:
        # Errors of TLS and of names have numbers of their own; asyncio's words for a connection
        # hold addresses.
        own = isinstance(failure, (aiohttp.ClientConnectorDNSError, aiohttp.ClientSSLError, ssl.SSLError))
        return ((own and failure.strerror) or os.strerror(failure.errno)).lower()
    if isinstance(failure, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
        return "the answer broke off"
    root: BaseException = failure
    while root.__cause__ is not None:
        root = root.__cause__
    return f"the answer is no HTTP or broke off ({type(root).__name__})"


def _refusal(status: int, path: str, body: bytes) -> NotAnswered:
    try:
        reason = f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        reason = f"HTTP {status}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        reason += ": the server wants another key or none"
    elif status in range(300, 400):
        reason += f": the server's {path} is at another address"
    return NotAnswered(reason, passing=status >= HTTPStatus.INTERNAL_SERVER_ERROR, status=status, body=body)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of a refusal, as far as it comes: the refusal itself is what matters."""
    data = b""
    try:
        while len(data) < REFUSAL_BYTES and (chunk := await response.content.read(REFUSAL_BYTES)):
            data += chunk
    except FAILURES:
        pass
    return data


def _basic(username: str | None, password: str | None) -> str | None:
    if username is None:
        return None
    pair = f"{unquote(username)}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _without_credentials(text: str) -> str:
    scheme, mark, rest = text.rpartition("://")
    place = rest.split("?")[0].split("#")[0]
    return f"{scheme}{mark}{place.rpartition('@')[2]}"


def _guess(shown: str) -> str:
    return shown.rpartition("://")[2].strip("/") or "localhost:8000"
