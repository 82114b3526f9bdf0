"""A small HTTP client for tests of the server: connections that stay open, answers as (status, headers, body)."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit


class Connection:
    """One connection to a server."""

    def __init__(self, url: str) -> None:
        self.host, self.port = urlsplit(url).hostname, urlsplit(url).port
        self.reader: Any = None
        self.writer: Any = None

    async def open(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        return self

    async def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    async def raw(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send bytes, and read one answer; status 0 if the connection is closed without one."""
        if self.writer is None or self.writer.is_closing():
            await self.open()
        try:
            self.writer.write(data)
            return await self.answer()
        except (ConnectionError, asyncio.IncompleteReadError):
            await self.close()
            return 0, {}, b""

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while True:
                size = int(await self.reader.readline(), 16)
                parts.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
                if not size:
                    break
            body = b"".join(parts)
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            await self.close()
        return int(head[0].split()[1]), headers, body

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: test", f"Content-Length: {len(data)}"]
        if "content_type" not in headers:
            lines.append("Content-Type: application/json")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return await self.raw("\r\n".join([*lines, "", ""]).encode() + data)

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """The status, and the JSON of the answer."""
        status, _, text = await self.request("POST", path, body, **headers)
        return status, json.loads(text) if text else None
