"""An HTTP/1.1 connection that posts JSON to one place, again and again.

Written on asyncio's streams because nothing else is needed and this takes less than half of aiohttp's CPU time per
request; `benchmarks/serving.py` measures the whole client. No redirects, no proxies, no compression: none is asked for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit


class Broken(Exception):
    """The connection could not be made, ended too early, or brought something that is not HTTP."""


class Connection:
    """A connection to `url`, opened when it is first used and whenever the server has closed it.

    `headers` are sent with every request. `tls` says which certificates are valid, and is needed for https.
    """

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self._tls = tls if parts.scheme == "https" else None
        self._host, self._port = parts.hostname, parts.port or (443 if self._tls else 80)
        lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._head = "\r\n".join([*lines, "Content-Length: "]).encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._last: tuple[bytes, bytes] | None = None  # bodies of the last request and response on the open connection

    async def post(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (names in lower case) and body of the response. Raises Broken.

        A response that is the last one over again, to the byte, but for another request, may be a copy of it that the
        server sent unasked, and would shift all answers after it. Completions have ids, so this hardly happens
        otherwise: the request is then made again on a new connection.
        """
        response = await self._exchange(body)
        asked, answered = self._last or (body, b"")
        if asked != body and response[0] == 200 and response[2] == answered:
            self.close()
            response = await self._exchange(body)
        if self._streams is not None:
            self._last = body, response[2]
        return response

    async def _exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        try:
            if self._streams is None or await _is_stale(self._streams[0]):
                self.close()
                self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
            reader, writer = self._streams
            writer.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
            await writer.drain()
            status, headers = await _read_head(reader)
            whole = await _read_body(reader, headers)
        except BaseException as error:
            self.close()  # what may still come belongs to this request, and must not be read as the next answer
            if isinstance(error, asyncio.IncompleteReadError):
                raise Broken("the server closed the connection before its answer was complete") from error
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise Broken(f"the connection failed: {error.strerror or error}") from error
            if isinstance(error, ValueError | asyncio.LimitOverrunError):
                raise Broken("the server's answer is not HTTP") from error
            raise
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, headers, whole

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = self._last = None


async def _is_stale(reader: asyncio.StreamReader) -> bool:
    """Whether the server has closed the connection since the last request, or has sent what nobody asked for: a second
    response would be taken for the next request's, and shift all answers after it.
    """
    try:
        async with asyncio.timeout(0):
            await reader.read(1)  # returns at once where there is something, or the end
    except TimeoutError:
        return False
    return True


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status = 100
    while 100 <= status < 200:  # what comes before the answer itself
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        protocol, number = lines[0].split()[:2]
        if not protocol.startswith("HTTP/1."):
            raise ValueError(protocol)
        status = int(number)
    fields = (line.partition(":") for line in lines[1:-2])
    return status, {name.lower(): value.strip() for name, _, value in fields}


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        pieces = []
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            pieces.append((await reader.readexactly(size + 2))[:-2])
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
        return b"".join(pieces)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read()  # until the server closes
