"""The connection reads every form that a response may have, and notices those that are none."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from weakspots.serving.http import Broken, Connection

BODY = b'{"text": "caf\xc3\xa9\\r\\n\\r\\n"}'
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\n%b\r\n%x;note=1\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
)
UNTIL_CLOSED = b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\n" + BODY
AFTER_NOTICE = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH


def exchange(*responses: bytes, close: bool = True, url: str = "http://127.0.0.1:{port}/v1", tls=None):
    """What a server gets and the client reads, when the server answers with these bytes, piece by piece."""
    got, read, connections = [], [], []

    async def serve(reader, writer):
        connections.append(writer)
        try:
            while responses[len(read) :]:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                got.append(head + await reader.readexactly(length))
                for start in range(0, len(responses[len(read)]), 7):
                    writer.write(responses[len(read)][start : start + 7])
                    await writer.drain()
                    await asyncio.sleep(0)
                if close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def main():
        trusted = ssl.create_default_context()
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        connection = Connection(url.format(port=server.sockets[0].getsockname()[1]), {"X-Mine": "1"}, trusted)
        try:
            for _ in responses:
                read.append(await connection.post(b"[%d]" % len(read)))
        finally:
            connection.close()
            server.close()

    asyncio.run(asyncio.wait_for(main(), 10))
    return got, read, len(connections)


@pytest.mark.parametrize("response", [LENGTH, CHUNKED, UNTIL_CLOSED, AFTER_NOTICE])
def test_a_body_is_read_whole_whatever_says_where_it_ends(response: bytes) -> None:
    got, ((status, headers, body),), _ = exchange(response)
    assert (status, body) == (200, BODY) and all(name == name.lower() for name in headers)
    head, _, sent = got[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1 HTTP/1.1" and b"X-Mine: 1" in lines and b"Content-Length: 3" in lines
    assert lines[1].startswith(b"Host: 127.0.0.1:") and sent == b"[0]"


@pytest.mark.parametrize("response", [LENGTH, CHUNKED, AFTER_NOTICE])
def test_one_connection_serves_many_requests(response: bytes) -> None:
    other = response.replace(b"caf", b"tea")
    assert exchange(response, other, response, close=False)[2] == 1


def test_a_response_that_comes_over_again_is_asked_for_anew() -> None:
    """On a new connection, where the same bytes are taken for an answer."""
    other = LENGTH.replace(b"caf", b"tea")
    got, read, connections = exchange(LENGTH, other, LENGTH, other, close=False)
    assert connections == 1 and len(got) == 4
    got, read, connections = exchange(LENGTH, LENGTH, close=False)
    assert [body for _, _, body in read] == [BODY, BODY] and connections == 2 and len(got) == 3


def test_a_connection_that_the_server_closed_or_will_close_is_opened_again() -> None:
    closing = LENGTH.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    assert exchange(closing, closing, close=False)[2] == 2
    assert exchange(UNTIL_CLOSED, UNTIL_CLOSED)[2] == 2


@pytest.mark.parametrize("response", [LENGTH, CHUNKED])
def test_every_cut_of_a_response_is_noticed(response: bytes) -> None:
    for length in range(0, len(response) - 1, 3):
        with pytest.raises(Broken, match="closed the connection before its answer was complete"):
            exchange(response[:length])


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_what_is_not_http_is_said(response: bytes) -> None:
    with pytest.raises(Broken, match="is not HTTP"):
        exchange(response)


def test_tls_is_spoken_and_a_certificate_that_nobody_vouches_for_refused(tmp_path: Path, monkeypatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test"],
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    https = "https://127.0.0.1:{port}/v1"
    with pytest.raises(Broken, match="CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
        exchange(LENGTH, url=https, tls=tls)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert exchange(LENGTH, url=https, tls=tls)[1][0][2] == BODY
