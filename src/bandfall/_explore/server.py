"""The explorer over HTTP, for one person on this machine.

The server binds only the loopback interface, answers only addresses with a random token,
understands only GET, and cannot write anything.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from bandfall._explore.page import LIVE_POLICY, WhatIf
from bandfall._version import __version__

Answer: TypeAlias = tuple[HTTPStatus, str, str]

HOST = "127.0.0.1"
_JSON = "application/json"
_NOTHING: Answer = (HTTPStatus.NOT_FOUND, _JSON, '{"error": "there is nothing here"}')


class Explorer:
    """A server of a page, which answers its what-ifs in a thread until it is closed."""

    def __init__(self, page: str, what_if: WhatIf):
        self.token = secrets.token_urlsafe(18)
        self._page, self._what_if = page, what_if
        self._lock = threading.Lock()  # one prediction at a time
        self._server = _Server((HOST, 0), _Handler)
        self._server.explorer = self
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.host}/{self.token}/"

    @property
    def host(self) -> str:
        """Host name and port of the server."""
        return f"{HOST}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, address: str, host: str) -> Answer:
        """Status, kind of content and content for the address and host of a request."""
        try:
            parts = urlsplit(address)
            _, token, name = parts.path.split("/", 2)
        except ValueError:
            return _NOTHING
        # Refuse other host names, with which a foreign page could reach this server.
        if host != self.host or not secrets.compare_digest(token.encode(), self.token.encode()):
            return _NOTHING
        if name == "":
            return HTTPStatus.OK, "text/html", self._page
        if name != "predict":
            return _NOTHING
        try:
            row, changes = _asked(self._what_if, parse_qs(parts.query))
        except (KeyError, ValueError):
            return HTTPStatus.BAD_REQUEST, _JSON, '{"error": "no such row, feature or value"}'
        with self._lock:
            outputs = self._what_if.predict(row, changes)
        return HTTPStatus.OK, _JSON, json.dumps({"outputs": outputs})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    explorer: Explorer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print bugs only: clients may close connections early."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = f"bandfall/{__version__}"
    sys_version = ""
    timeout = 5.0  # seconds without a byte

    def do_GET(self) -> None:
        status, kind, text = self.server.explorer.answer(self.path, self.headers.get("Host", ""))
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": LIVE_POLICY,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing: the command writes to the terminal."""


def _asked(what_if: WhatIf, query: dict[str, list[str]]) -> tuple[int, dict[int, int]]:
    """The row of a query, and the points of its changed features."""
    row = _within(query["row"][0], len(what_if.rows))
    changes = {}
    for pair in query["changes"][0].split(","):
        name, point = pair.split(":")
        feature = _within(name, len(what_if.features))
        changes[feature] = _within(point, len(what_if.features[feature].points.values))
    return row, changes


def _within(text: str, end: int) -> int:
    if not 0 <= int(text) < end:
        raise ValueError("no such row, feature or value")
    return int(text)
