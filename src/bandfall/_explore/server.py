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
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

from bandfall._drawing import filled_page, style_sheet
from bandfall._explore.data_page import LIVE_POLICY
from bandfall._explore.what_if import WhatIf
from bandfall._typing import JsonDict
from bandfall._version import __version__

Connection: TypeAlias = socket.socket | tuple[bytes, socket.socket]
Address: TypeAlias = tuple[str, int]

HOST = "127.0.0.1"


class Explorer:
    """A server that shows progress until it has a page, and then answers what-ifs.

    It closes connections that are silent for `patience` seconds.

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
        self._server = _Server((HOST, 0), _handler(self, patience), most_connections)
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

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[HTTPStatus, str, str]:
        """Status, kind of content and content for a path below the token."""
        if path == "":
            return HTTPStatus.OK, "text/html", self._page
        if path == "state":
            ready = self._what_if is not None
            return _json(HTTPStatus.OK, {"ready": ready, "share": self.share})
        if path == "predict" and self._what_if is not None:
            return self._prediction(self._what_if, query)
        return _json(HTTPStatus.NOT_FOUND, {"error": "there is nothing here"})

    def _prediction(
        self, what_if: WhatIf, query: dict[str, list[str]]
    ) -> tuple[HTTPStatus, str, str]:
        try:
            row, changes = _asked(what_if, query)
        except (KeyError, ValueError, IndexError):
            return _json(HTTPStatus.BAD_REQUEST, {"error": "no such row, feature or value"})
        with self._lock:
            outputs = what_if.predict(row, changes)
        return _json(HTTPStatus.OK, {"outputs": outputs})


class _Server(ThreadingHTTPServer):
    """Serves a bounded number of connections at a time, and prints nothing."""

    daemon_threads = True

    def __init__(self, address: Address, handler: type[BaseHTTPRequestHandler], most: int):
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(most)

    def process_request(self, request: Connection, client_address: Address) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Connection, client_address: Address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Connection, client_address: Address) -> None:
        """Print bugs only: clients may close connections early."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


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
            changes[feature] = int(_within(int(value), 0, len(points.grid) - 1))
    return row, changes


def _within(value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError("unknown place")
    return value


def _json(status: HTTPStatus, value: JsonDict) -> tuple[HTTPStatus, str, str]:
    return status, "application/json", json.dumps(value)


def _handler(explorer: Explorer, patience: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = f"bandfall/{__version__}"
        sys_version = ""
        timeout = patience

        def do_GET(self) -> None:
            try:
                parts = urlsplit(self.path)
                _, token, *rest = parts.path.split("/", 2)
            except ValueError:
                self._send(*_json(HTTPStatus.BAD_REQUEST, {"error": "no such address"}))
                return
            known = secrets.compare_digest(token.encode(), explorer.token.encode())
            # Refuse other host names, with which a foreign page could reach this server.
            host = self.headers.get("Host", "")
            if not known or len(rest) != 1 or host != explorer.host:
                self._send(*_json(HTTPStatus.NOT_FOUND, {"error": "there is nothing here"}))
                return
            self._send(*explorer.answer(rest[0], parse_qs(parts.query)))

        def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
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
