"""Ask a Prometheus server (or one that speaks its HTTP API) for series and their stored samples."""

import ipaddress
import json
import os
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from draftmeter.measure.watch.address import AddressError, parse_address

AUTHORIZATION_VARIABLE = "DRAFTMETER_PROMETHEUS_AUTHORIZATION"
"""Value of the Authorization header, such as ``Bearer ...``; a name and password in the URL do as well."""
TIMEOUT_S = 120
_EXCERPT = 300

Samples = list[tuple[dict[str, str], list[tuple[float, str]]]]


class HistoryError(ValueError):
    """A history that cannot be read: what was asked, what was found, what would be right. Never quotes credentials."""


class PrometheusServer:
    """A Prometheus server at `url`; raises :class:`HistoryError` for a URL that cannot be used."""

    def __init__(self, url: str) -> None:
        try:
            address = parse_address(url)
        except AddressError as error:
            raise HistoryError(f"--prometheus: {error}") from error
        given = os.environ.get(AUTHORIZATION_VARIABLE)
        if given:
            if address.authorization is not None:
                raise HistoryError(f"found a name in the URL and {AUTHORIZATION_VARIABLE}; a request can carry only one of them")
            if not given.isascii() or not given.isprintable():
                raise HistoryError(f"{AUTHORIZATION_VARIABLE}: found a line feed or another unprintable character in it")
            address = replace(address, authorization=given)
        self.url = address.url
        """Without credentials."""
        self.warnings: list[str] = []
        """What the server said against the completeness of its answers."""
        self._authorization = address.authorization
        self._opener = _opener(address.host)

    def series(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """The labels of the series that match and have samples between two times (Unix seconds)."""
        found = self._ask("series", {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"})
        return list(found)

    def samples(self, selector: str, start: float, end: float) -> Samples:
        """The stored samples of the series that match: their labels, and (Unix seconds, number as text) in order of time."""
        milliseconds = round((end - start) * 1000)
        found = self._ask("query", {"query": f"{selector}[{milliseconds}ms]", "time": f"{end:.3f}"})
        try:
            return [(one["metric"], [(float(t), str(number)) for t, number in one.get("values", [])]) for one in found["result"]]
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"{self.url}: the answer to a query is no matrix of samples ({error!r})") from error

    def _ask(self, what: str, parameters: dict[str, str]) -> Any:
        request = Request(f"{self.url}/api/v1/{what}?{urlencode(parameters)}", headers={"Accept": "application/json"})
        if self._authorization is not None:
            # Not sent on to where a redirection leads.
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                answer = _read(response.read())
        except HTTPError as error:
            raise HistoryError(self._refusal(error)) from None
        except (URLError, OSError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise HistoryError(f"{self.url}: cannot be asked: {reason}") from None
        if answer is None or "data" not in answer:
            raise HistoryError(f"{self.url}: not a Prometheus server: /api/v1/{what} did not answer as its HTTP API does")
        for warning in answer.get("warnings") or []:
            if (text := str(warning)[:_EXCERPT]) not in self.warnings:
                self.warnings.append(text)
        return answer["data"]

    def _refusal(self, error: HTTPError) -> str:
        named = f"HTTP {error.code} {error.reason}".strip()
        if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return f"{self.url}: {named}; give a name and password in the URL, or {AUTHORIZATION_VARIABLE}"
        answer = _read(error.read())
        if answer is not None and isinstance(answer.get("error"), str):
            return f"{self.url}: {named}: {answer['error'][:_EXCERPT]}"
        return f"{self.url}: {named}; expected a Prometheus server: its address without /api, such as http://prometheus:9090"


def _read(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and answer.get("status") in ("success", "error") else None


def _opener(host: str) -> OpenerDirector:
    """One that asks this very machine without a proxy."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return build_opener(ProxyHandler({})) if loopback else build_opener()
