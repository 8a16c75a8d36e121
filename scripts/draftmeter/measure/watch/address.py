"""The address of a live server: where its /metrics is, how to ask for it, and what of it may be written down."""

import base64
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
API_KEY_VARIABLE = "DRAFTMETER_API_KEY"


class AddressError(ValueError):
    """A URL or an API key that cannot be used: what was found (never the secret), what would be right."""


@dataclass(frozen=True)
class Address:
    """`url` holds no credentials and no /metrics, and is the same for every way to write the same server."""

    url: str
    scheme: str
    host: str
    port: int
    path: str
    """What stands in front of /metrics and /version; empty, or begins with a slash."""
    authorization: str | None = field(default=None, repr=False)
    """The value of the header of that name; never written anywhere."""


def parse_address(text: str, api_key: str | None = None) -> Address:
    """The address in `text` ("http://host:8000", with or without /metrics). Raises :class:`AddressError`.

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
    path = parts.path.rstrip("/").removesuffix("/metrics").rstrip("/")
    name = f"[{host}]" if ":" in host else host
    place = name if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{name}:{port}"
    return Address(
        url=f"{parts.scheme}://{place}{path}",
        scheme=parts.scheme,
        host=host,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        path=path,
        authorization=_authorization(parts.username, parts.password, api_key),
    )


def _authorization(username: str | None, password: str | None, api_key: str | None) -> str | None:
    if api_key:
        if username is not None:
            raise AddressError(f"found a name in the URL and {API_KEY_VARIABLE}; a request can carry only one of them")
        # Checked here, because an HTTP library quotes the header that it refuses.
        if not api_key.isascii() or not api_key.isprintable():
            raise AddressError(f"{API_KEY_VARIABLE}: found a line feed or another unprintable character in it")
        return f"Bearer {api_key}"
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
