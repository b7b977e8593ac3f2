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
from contextlib import suppress
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

from bandfall._drawing import filled_page, style_sheet
from bandfall._explore.page import LIVE_POLICY, WhatIf
from bandfall._version import __version__

Connection: TypeAlias = socket.socket | tuple[bytes, socket.socket]
Address: TypeAlias = tuple[str, int]
Answer: TypeAlias = tuple[HTTPStatus, str, str]

HOST = "127.0.0.1"
_JSON = "application/json"
_NOTHING: Answer = (HTTPStatus.NOT_FOUND, _JSON, '{"error": "there is nothing here"}')


class Explorer:
    """A server that shows progress until it has a page, and then answers what-ifs.

    It reads a request for at most `patience` seconds, and closes connections beyond the first
    `most_connections`.

    Examples
    --------
    >>> explorer = Explorer("y")
    >>> explorer.address.startswith("http://127.0.0.1:")
    True
    >>> explorer.close()
    """

    def __init__(self, target: str, *, patience: float = 5.0, most_connections: int = 32):
        self.token = secrets.token_urlsafe(18)
        self.share = 0.0
        self._page = _waiting_page(target)
        self._what_if: WhatIf | None = None
        self._lock = threading.Lock()  # one prediction at a time
        self._server = _Server((HOST, 0), _handler(self, patience), patience, most_connections)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
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
        except (KeyError, ValueError, IndexError):
            return HTTPStatus.BAD_REQUEST, _JSON, '{"error": "no such row, feature or value"}'
        with self._lock:
            outputs = what_if.predict(row, changes)
        return HTTPStatus.OK, _JSON, json.dumps({"outputs": outputs})


class _Server(ThreadingHTTPServer):
    """Serves a bounded number of connections for a bounded time, and prints nothing."""

    daemon_threads = True

    def __init__(
        self, address: Address, handler: type[BaseHTTPRequestHandler], patience: float, most: int
    ):
        super().__init__(address, handler)
        self._patience, self._free = patience, threading.BoundedSemaphore(most)

    def process_request(self, request: Connection, client_address: Address) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Connection, client_address: Address) -> None:
        # A timeout of the socket would begin again with every byte.
        timer = threading.Timer(self._patience, _stop_reading, (request,))
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._free.release()

    def handle_error(self, request: Connection, client_address: Address) -> None:
        """Print bugs only: clients may close connections early."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _stop_reading(request: Connection) -> None:
    """End a request that is not complete yet; an answer can still be sent."""
    if isinstance(request, socket.socket):
        with suppress(OSError):  # it has ended
            request.shutdown(socket.SHUT_RD)


def _asked(what_if: WhatIf, query: dict[str, list[str]]) -> tuple[int, dict[int, int | float]]:
    """Row and changes of a query: indices of points, or dates as @seconds."""
    row = int(query["row"][0])
    if not 0 <= row < len(what_if.rows):
        raise ValueError("unknown row")
    changes: dict[int, int | float] = {}
    for pair in query["changes"][0].split(","):
        name, value = pair.split(":")
        feature = int(name)
        if not 0 <= feature < len(what_if.features):
            raise ValueError("unknown feature")
        points = what_if.features[feature].points
        if value.startswith("@") and points.kind == "time":
            changes[feature] = _within(float(value[1:]), points.grid[0], points.grid[-1])
        else:
            changes[feature] = int(_within(int(value), 0, len(points.values) - 1))
    return row, changes


def _within(value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError("unknown place")
    return value


def _handler(explorer: Explorer, patience: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = f"bandfall/{__version__}"
        sys_version = ""
        timeout = patience

        def do_GET(self) -> None:
            status, kind, text = explorer.answer(self.path, self.headers.get("Host", ""))
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", LIVE_POLICY)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Print nothing: the command writes to the terminal."""

    return Handler


def _waiting_page(target: str) -> str:
    parts = {
        "style": style_sheet("bandfall.report", "page.css"),
        "policy": LIVE_POLICY,
        "target": escape(target),
    }
    return filled_page("bandfall._explore", "waiting.html", parts)
