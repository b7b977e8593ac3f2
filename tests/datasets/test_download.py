"""The download path, against a server on the loopback interface."""

import dataclasses
import http.server
import threading

import numpy as np
import pytest

from bandfall.datasets._real import load_table
from toy_source import CONTENT, TABLE, TOY, zipped


@pytest.fixture
def served():
    """What the server sends under /toy+data.zip; absent means 404. Requests are counted."""
    return {"requests": 0}


@pytest.fixture
def source(served, tmp_path, monkeypatch):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            served["requests"] += 1
            body = served.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    monkeypatch.delenv("BANDFALL_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield dataclasses.replace(
            TOY,
            archive_url=f"http://127.0.0.1:{server.server_port}/toy+data.zip",
            archive_member="inner.csv",
        )
        server.shutdown()
        thread.join()


def test_download_once_then_cache(source, served, tmp_path):
    served["/toy+data.zip"] = zipped(CONTENT)
    np.testing.assert_array_equal(load_table(source), TABLE)
    np.testing.assert_array_equal(load_table(source), TABLE)
    assert served["requests"] == 1
    assert [path.name for path in (tmp_path / "cache" / "bandfall").iterdir()] == ["toy+data.zip"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (None, "could not be downloaded"),
        (b"<html>an error page</html>", "cannot be unpacked"),
        (zipped(CONTENT)[:-40], "cannot be unpacked"),
        (zipped(CONTENT.replace(b"8.0", b"8.1")), "checksum differs"),
        (zipped(CONTENT, member="renamed.csv"), "inner.csv"),
    ],
)
def test_a_wrong_answer_is_refused_and_leaves_no_file(source, served, tmp_path, body, complaint):
    if body is not None:
        served["/toy+data.zip"] = body
    with pytest.raises(OSError, match=complaint) as caught:
        load_table(source)
    message = str(caught.value)
    assert source.archive_url in message
    assert "put toy.csv.gz or toy.csv or toy+data.zip" in message
    assert "\n" not in message
    assert list((tmp_path / "cache" / "bandfall").iterdir()) == []
    # Nothing stands in the way of the next attempt.
    served["/toy+data.zip"] = zipped(CONTENT)
    np.testing.assert_array_equal(load_table(source), TABLE)


def test_offline_is_one_clear_line(source, tmp_path):
    unreachable = dataclasses.replace(source, archive_url="http://127.0.0.1:9/toy+data.zip")
    with pytest.raises(OSError, match=r"could not be downloaded .*ConnectionError.*BANDFALL_DATA"):
        load_table(unreachable)
