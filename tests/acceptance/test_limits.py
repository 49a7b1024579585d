"""Bodies over the limit, counted while they arrive."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.networks import scale_bias
from tests.live import LiveService, serving

MAX_JSON, MAX_UPLOAD = 10_000, 50_000


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    folder = tmp_path_factory.mktemp("narrow")
    with serving(folder, "--no-worker", max_json=MAX_JSON, max_upload=MAX_UPLOAD) as service:
        yield service


def padded(size: int) -> bytes:
    return json.dumps(scale_bias()).encode().ljust(size)


def pieces(content: bytes) -> Iterator[bytes]:
    """Sent in chunks, without a length up front."""
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


def test_json_up_to_the_limit(narrow: LiveService) -> None:
    headers = {"content-type": "application/json"}
    assert narrow.http.post("/engines", content=padded(MAX_JSON), headers=headers).status_code == 202
    for content in (padded(MAX_JSON + 1), pieces(padded(MAX_JSON + 1))):
        response = narrow.http.post("/engines", content=content, headers=headers)
        assert response.status_code == 413
        assert str(MAX_JSON) in response.json()["detail"]


def test_an_upload_that_goes_on_is_cut_off(narrow: LiveService) -> None:
    """No more is read than it takes to know."""
    with socket.create_connection((httpx.URL(narrow.url).host, httpx.URL(narrow.url).port)) as connection:
        connection.sendall(
            b"POST /engines HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
            + chunk(b'--b\r\nContent-Disposition: form-data; name="model"; filename="m"\r\n\r\n')
            + chunk(b"x" * MAX_UPLOAD)
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("part", ["options", "model"])
def test_parts_over_their_limit(narrow: LiveService, part: str) -> None:
    sizes = {"options": MAX_JSON + 1, "model": MAX_UPLOAD + 1}
    files = {"options": b"{}", "model": b"", part: b" " * sizes[part]}
    assert narrow.http.post("/engines", files=files).status_code == 413


def test_inference_over_the_limit(narrow: LiveService) -> None:
    headers = {"content-type": "application/json"}
    response = narrow.http.post("/engines/x/infer", content=padded(MAX_JSON + 1), headers=headers)
    assert response.status_code == 413


def test_nothing_of_it_stays(narrow: LiveService, tmp_path: Path) -> None:
    assert not list((narrow.data_dir / "scratch").glob("*"))


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
