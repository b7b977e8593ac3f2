"""The explorer over HTTP, for one person on this machine.

The server binds only the loopback interface, answers only addresses with a random token,
understands only GET, and cannot write anything.
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

from bandfall._drawing.pages import filled, read_resource, whole_page
from bandfall._explore.page import LIVE_POLICY, WhatIf
from bandfall._version import __version__

Number = TypeVar("Number", int, float)
Answer: TypeAlias = tuple[HTTPStatus, str, str]

HOST = "127.0.0.1"
MAX_CONNECTIONS = 32
_PACKAGE, _JSON = "bandfall._explore", "application/json"
_NOTHING: Answer = (HTTPStatus.NOT_FOUND, _JSON, '{"error": "there is nothing here"}')


class Explorer:
    """A server that shows progress until it has a page, and then answers what-ifs.

    A request must arrive within `patience` seconds, and before 32 newer connections.

    Examples
    --------
    >>> explorer = Explorer("y")
    >>> explorer.address.startswith("http://127.0.0.1:")
    True
    >>> explorer.close()
    """

    def __init__(self, target: str, patience: float = 5.0):
        self.token = secrets.token_urlsafe(18)
        self.share = 0.0
        self._page = _waiting_page(target)
        self._what_if: WhatIf | None = None
        self._lock = threading.Lock()  # one prediction at a time
        self._server = _Server((HOST, 0), _Handler)
        self._server.explorer, self._server.patience = self, patience
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

    def progress(self, share: float) -> None:
        """Set the share of the work before the page that is done."""
        self.share = min(max(share, self.share), 1.0)

    def show(self, page: str, what_if: WhatIf) -> None:
        """Serve this page from now on."""
        with self._lock:
            self._page, self._what_if = page, what_if

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
        what_if = self._what_if
        if name == "":
            return HTTPStatus.OK, "text/html", self._page
        if name == "state":
            state = {"ready": what_if is not None, "share": self.share}
            return HTTPStatus.OK, _JSON, json.dumps(state)
        if name != "predict" or what_if is None:
            return _NOTHING
        try:
            row, changes = _asked(what_if, parse_qs(parts.query))
        except (KeyError, ValueError):
            return HTTPStatus.BAD_REQUEST, _JSON, '{"error": "no such row, feature or value"}'
        with self._lock:
            outputs = what_if.predict(row, changes)
        return HTTPStatus.OK, _JSON, json.dumps({"outputs": outputs})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    explorer: Explorer
    patience: float

    def __init__(self, *arguments: Any):
        self._connections = deque[tuple[float, socket.socket]]()  # the oldest first
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, and note when reading must end."""
        self._connections.append((time.monotonic() + self.patience, request))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End the reading of requests that take too long, or beside too many newer ones."""
        known = self._connections
        while known and (known[0][0] < time.monotonic() or len(known) > MAX_CONNECTIONS):
            with suppress(OSError):  # it has been answered
                known.popleft()[1].shutdown(socket.SHUT_RD)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print bugs only: clients may close connections early."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = f"bandfall/{__version__}"
    sys_version = ""
    timeout = 5.0  # seconds for the whole answer, or without a byte of a request

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


def _asked(what_if: WhatIf, query: dict[str, list[str]]) -> tuple[int, dict[int, int | float]]:
    """Row and changes of a query: indices of points, or dates as @seconds."""
    row = _within(int(query["row"][0]), 0, len(what_if.rows) - 1)
    changes: dict[int, int | float] = {}
    for pair in query["changes"][0].split(","):
        name, value = pair.split(":")
        feature = _within(int(name), 0, len(what_if.features) - 1)
        points = what_if.features[feature].points
        if value.startswith("@") and points.kind == "time":
            changes[feature] = _within(float(value[1:]), points.grid[0], points.grid[-1])
        else:
            changes[feature] = _within(int(value), 0, len(points.values) - 1)
    return row, changes


def _within(value: Number, low: float, high: float) -> Number:
    if not low <= value <= high:
        raise ValueError("no such row, feature or value")
    return value


def _waiting_page(target: str) -> str:
    return whole_page(
        "Training: bandfall explorer",
        filled(read_resource(_PACKAGE, "waiting.html"), target=escape(target)),
        style=read_resource("bandfall.report", "page.css"),
        script=read_resource(_PACKAGE, "waiting.js"),
        policy=LIVE_POLICY,
    )
