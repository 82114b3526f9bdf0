"""Malformed, huge, slow and smuggled requests: each is refused with a 4xx, says nothing of the inside, and hurts nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from http_client import Connection

MODELS = Path(__file__).parent / "models"
BODY_BYTES, HEADER_BYTES, PENDING_BYTES = 100_000, 4_000, 500_000


@pytest.fixture(scope="module")
def server(start: Callable[..., Any], program: Callable[[float, str], Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = tmp_path_factory.mktemp("settings") / "serve.toml"
    settings.write_text(f"""
body_bytes = {BODY_BYTES}
header_bytes = {HEADER_BYTES}
header_seconds = 0.5
body_seconds = 0.5
write_seconds = 0.5
pending_bytes = {PENDING_BYTES}
[[model]]
name = "m"
path = "{program(1.0, "hostile.pt2")}"
max_batch_size = 8
[[model]]
name = "echo"
path = "{MODELS}"
handler = "{MODELS / "echo_handler.py"}"
timeout = 1
queue_size = 4
batches_ahead = 1
[[model]]
name = "counting"
path = "{MODELS}"
handler = "{MODELS / "counting.py"}"
timeout = 3
""")
    return start("--config", settings)


def raw(server: Any, *data: bytes, pause: float = 0.0) -> tuple[int, dict[str, str], bytes]:
    """The answer to bytes, sent in parts."""

    async def run() -> tuple[int, dict[str, str], bytes]:
        connection = await Connection(server.inference).open()
        try:
            for part in data[:-1]:
                connection.writer.write(part)
                await asyncio.sleep(pause)
            return await asyncio.wait_for(connection.raw(data[-1]), 30)
        finally:
            await connection.close()

    return asyncio.run(run())


def post(path: str, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def fine(server: Any) -> bool:
    """Whether the server still answers."""
    status, _, body = raw(server, post("/predictions/m", b"[[1, 0, 0, 0]]"))
    return status == 200 and json.loads(body) == [[1.0, 2.0]]


def kserve(**entry: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4], **entry}]}).encode()


NPY = b"\x93NUMPY\x01\x00"


def npy(header: bytes, rest: bytes = b"") -> bytes:
    """A .npy file with a header."""
    return NPY + b"\x76\x00" + header.ljust(117) + b"\n" + rest


BODIES = [
    b"",
    b"{",
    b"[[1, 2, 3, 4]",
    b"nul",
    b"\xff\xfe\x00",
    b"NaN",
    b"[[NaN, 1, 2, 3]]",
    b"[[1, 2, 3, 1e999]]",
    b"[[1, 2, 3, 1e39]]",
    b'[["' + b"a" * 50_000 + b'"' + b',"b"' * 10_000 + b"]]",
    b"[" + b"[]," * 64 + b'"' + b'\\"' * 45_000,
    b'"text"',
    b"null",
    b"{}",
    b"[]",
    b"[[]]",
    b"[[1, 2], [3]]",
    b'[["a", "b", "c", "d"]]',
    b'[["1", "2", "3", "4"]]',
    b"[[1, 2, 3, null]]",
    b"[[{}, 1, 2, 3]]",
    b"[[1, 2, 3]]",
    b"[[[1, 2, 3, 4]]]",
    b'{"y": [[1, 2, 3, 4]], "z": 1}',
    b"[" * 50_000,
    b"[" * 1_000 + b"]" * 1_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b"[[" + b"9" * 5_000 + b", 1, 2, 3]]",
    b'{"instances": 3}',
    b'{"inputs": {"x": "text"}}',
    b"[[" + b"1," * 3 + b"1]" + b",[1,1,1,1]" * 100 + b"]",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_no_input(server: Any, body: bytes) -> None:
    status, _, answer = raw(server, post("/predictions/m", body))
    assert 400 <= status < 500 and b"Traceback" not in answer and b".py" not in answer


KSERVE = [
    b"[]",
    b'{"inputs": {}}',
    b'{"inputs": [1]}',
    kserve(shape=[1 << 50, 1 << 50]),
    kserve(shape=[-1, 4]),
    kserve(shape=[1.5, 4]),
    kserve(shape=[1, 4, 1 << 39]),
    kserve(shape=[True, 4]),
    kserve(shape=[1] * 98 + [1, 4]),
    kserve(shape=[0, 1 << 39, 1 << 39], data=[]),
    kserve(data=[1e39, 2, 3, 4]),
    kserve(datatype="FP99"),
    kserve(datatype=["FP32"]),
    kserve(data=[1, 2, 3]),
    kserve(data="abcd"),
    kserve(data=["1", "2", "3", "4"]),
    kserve(datatype="UINT8", data=[1, 2, 3, 256]),
    kserve(name=None),
    kserve(datatype="BYTES"),
    kserve(datatype="INT64", data=[1.5, 2, 3, 4]),
    kserve(parameters={"binary_data_size": 10**9}),
    kserve(parameters={"binary_data_size": -4}),
]


@pytest.mark.parametrize("body", KSERVE, ids=range(len(KSERVE)))
def test_kserve_inputs_of_wrong_types(server: Any, body: bytes) -> None:
    status, _, answer = raw(server, post("/v2/models/m/infer", body))
    assert 400 <= status < 500 and set(json.loads(answer)) == {"error"}


def test_binary_data_of_wrong_lengths(server: Any) -> None:
    for header in ("999999", "-1", "1e3", "", "abc"):
        status, _, _ = raw(server, post("/v2/models/m/infer", kserve(), f"Inference-Header-Content-Length: {header}"))
        assert status == 400, header


@pytest.mark.parametrize(
    "body",
    [
        b"",
        NPY,
        NPY + b"\x10\x00" + b"{" * 16,
        NPY + b"\xff\xff" + b"(" * 60_000,
        b"\x80\x04K\x01.",
        b"PK\x03\x04",
        npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n(S'true'\ntR."),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 99999), }"),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }"),
    ],
    ids=range(9),
)
def test_arrays_that_are_none_or_hold_objects(server: Any, body: bytes) -> None:
    status, _, _ = raw(server, post("/predictions/m", body, kind="application/x-npy"))
    assert status == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"messages": []},
        {"messages": "hi"},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": 1, "content": "a"}]},
        {"messages": [{"role": "user", "content": "a"}], "temperature": -1},
        {"messages": [{"role": "user", "content": "a"}], "temperature": "hot"},
        {"messages": [{"role": "user", "content": "a"}], "n": 1000},
        {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1.5},
        {"messages": [{"role": "user", "content": "a"}], "stop": [1]},
        {"messages": [{"role": "user", "content": "a"}], "stream": "yes"},
        {"messages": [{"role": "user", "content": "a"}], "seed": 1 << 70},
        {"messages": [{"role": "user", "content": "\ud800"}]},
    ],
    ids=range(14),
)
def test_chats_of_wrong_types(server: Any, body: Any) -> None:
    content = {"model": "counting", **body} if isinstance(body, dict) else body
    status, _, answer = raw(server, post("/v1/chat/completions", json.dumps(content).encode()))
    assert status == 400 and "message" in json.loads(answer)["error"]


def test_tokens_that_the_model_does_not_have(server: Any) -> None:
    body = {"model": "counting", "prompt": [97], "max_tokens": 1}
    status, _, answer = raw(server, post("/v1/completions", json.dumps(body).encode()))
    assert status == 400 and "tokens up to 96" in json.loads(answer)["error"]["message"]


def test_encoded_bodies_are_not_taken(server: Any) -> None:
    for path in ("/predictions/m", "/predictions/echo"):
        status, headers, _ = raw(server, post(path, b"\x1f\x8b", "Content-Encoding: gzip"))
        assert status == 415 and headers["connection"] == "close"


@pytest.mark.parametrize(
    ("asked", "status"), [(204, 204), (304, 304), (418, 418), (99, 500), (100, 500), (600, 500), ("ok", 500)]
)
def test_what_handlers_say_cannot_break_the_connection(server: Any, asked: Any, status: int) -> None:
    """A status without a body has none; a content type ends no line."""

    async def run() -> None:
        connection = await Connection(server.inference).open()
        body = {"status": asked, "type": "a/b\r\nx-evil: 1"}
        got, headers, _ = await connection.request("POST", "/predictions/echo", body)
        assert got == status and "x-evil" not in headers
        assert (await connection.post("/predictions/m", [1, 0, 0, 0])) == (200, [1.0, 2.0])
        await connection.close()

    asyncio.run(run())


def test_bodies_that_come_count_together(server: Any) -> None:
    """Those that are only half there do too."""

    async def client() -> int:
        connection = await Connection(server.inference).open()
        head = b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: 99999\r\n\r\n"
        status, _, _ = await connection.raw(head + b" " * 90_000)
        await connection.close()
        return status

    async def run() -> list[int]:
        return await asyncio.gather(*(client() for _ in range(12)))

    statuses = asyncio.run(run())
    assert set(statuses) == {408, 503}
    assert fine(server)


def test_a_client_that_does_not_read_is_left(server: Any) -> None:
    """Its answers aren't kept for ever."""
    where = urlsplit(server.inference)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((where.hostname, where.port))
        client.settimeout(60)
        request = post("/predictions/echo", b"x" * 90_000, kind="text/x")
        with pytest.raises(ConnectionError):
            while True:  # until the buffers of the way there and back are full, and the server closes
                client.sendall(request)
    assert fine(server)


def test_bodies_that_are_too_long(server: Any) -> None:
    status, headers, _ = raw(server, b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n")
    assert status == 413 and headers["connection"] == "close"
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    head = b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(server, head + chunk * (BODY_BYTES // 0x8000 + 1))[0] == 413
    assert fine(server)


def test_headers_that_are_too_long(server: Any) -> None:
    assert raw(server, post("/predictions/m", b"[[1,0,0,0]]", "X-Long: " + "a" * HEADER_BYTES))[0] == 431
    assert raw(server, post("/predictions/m", b"[[1,0,0,0]]", *[f"X-{at}: 1" for at in range(HEADER_BYTES // 6)]))[0] == 431
    assert raw(server, b"GET /" + b"a" * HEADER_BYTES + b" HTTP/1.1\r\nHost: t\r\n\r\n")[0] == 431
    assert raw(server, b"GET / HTTP/1.1\r\nX: ", b"a" * HEADER_BYTES, b"a" * HEADER_BYTES, pause=0.05)[0] == 431
    assert fine(server)


def test_what_comes_too_slowly(server: Any) -> None:
    assert raw(server, b"GET /ping HT", b"TP/1.1\r\nX: y\r\n", b"", pause=0.1)[0] == 408
    assert (
        raw(server, b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: 20\r\n\r\n", b"[[1,", b"", pause=0.1)[0] == 408
    )


@pytest.mark.parametrize(
    "head",
    [
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: +5\r\n\r\nabcde",
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999999\r\n\r\nabcde",
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        b"POST /predictions/m HTTP/1.1\r\nHost: t\r\nContent Length: 5\r\n\r\nabcde",
        b"GET /ping HTTP/1.1\r\nHost: t\r\nX: a\x00b\r\n\r\n",
        b"GET /ping\x00 HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET http://[::1 HTTP/1.1\r\nHost: t\r\n\r\n",
    ],
    ids=range(12),
)
def test_smuggled_and_malformed_heads(server: Any, head: bytes) -> None:
    status, headers, body = raw(server, head)
    assert status in (0, 400) and b"Traceback" not in body
    assert headers.get("connection", "close") == "close"


def test_trailers_are_no_headers(server: Any) -> None:
    """What stands behind the last chunk doesn't name the request, and can't grow without end."""
    head = b"POST /predictions/echo HTTP/1.1\r\nHost: t\r\nContent-Type: text/x\r\nX-Request-Id: a\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    status, headers, body = raw(server, head + b"3\r\nabc\r\n0\r\nX-Request-Id: b\r\nContent-Type: application/json\r\n\r\n")
    assert (status, headers["x-request-id"], body) == (200, "a", b"cba")


@pytest.mark.parametrize("id", ["a\tb", "x" * 200, "é", "a b", "<script>"])
def test_ids_of_requests_that_could_confuse_logs_are_replaced(server: Any, id: str) -> None:
    status, headers, _ = raw(server, post("/predictions/m", b"[[1,0,0,0]]", f"X-Request-Id: {id}"))
    assert status == 200 and headers["x-request-id"] not in ("", id)


def test_paths(server: Any) -> None:
    for path in (
        "/predictions",
        "/predictions/",
        "/predictions/../m",
        "/predictions/%2e%2e%2fm",
        "/predictions/none",
        "/predictions/m/9",
        "/v2/models/m/versions/9/infer",
        "/v2/models//infer",
        "/v1/models/none:predict",
        "/x",
        "//",
        "/v2/none",
    ):
        status, _, body = raw(server, post(path, b"[[1,0,0,0]]"))
        assert status == 404, path
        assert b"Traceback" not in body
    assert raw(server, b"DELETE /predictions/m HTTP/1.1\r\nHost: t\r\n\r\n")[0] == 405
    assert raw(server, b"GET /v1/embeddings HTTP/1.1\r\nHost: t\r\n\r\n")[0] == 405
    assert raw(server, b"OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n")[0] == 404


def test_a_full_queue_is_said_to_be_full_and_time_runs_out(server: Any) -> None:
    async def client(body: Any) -> int:
        connection = await Connection(server.inference).open()
        status, headers, _ = await connection.request("POST", "/predictions/echo", body)
        assert status != 429 or headers["retry-after"] == "1"
        await connection.close()
        return status

    async def run() -> list[int]:
        slow = [asyncio.ensure_future(client({"wait": 0.6})) for _ in range(3)]
        await asyncio.sleep(0.2)
        return [*await asyncio.gather(*map(client, range(10))), *await asyncio.gather(*slow)]

    statuses = asyncio.run(run())
    assert 429 in statuses[:10] and set(statuses) <= {200, 429, 504} and 504 in statuses
    assert asyncio.run(client(1)) == 200


def test_a_worker_that_hangs_is_replaced(server: Any) -> None:
    async def client(body: Any) -> tuple[int, Any]:
        connection = await Connection(server.inference).open()
        answer = await connection.post("/predictions/echo", body)
        await connection.close()
        return answer

    body = {"model": "counting", "prompt": "hang"}
    text = json.dumps(body).encode()
    assert raw(server, post("/v1/completions", text))[0] == 504
    assert raw(server, post("/v1/completions", text.replace(b"hang", b"a")))[0] == 200
    first = asyncio.run(client("who"))[1]["process"]
    assert asyncio.run(client({"wait": 600}))[0] in (503, 504)
    while asyncio.run(asyncio.wait_for(client("who"), 60))[0] != 200:
        pass
    assert asyncio.run(client("who"))[1]["process"] != first and not os.path.exists(f"/proc/{first}")


def test_clients_that_leave_take_their_requests_with_them(server: Any) -> None:
    """What waits for a client that is gone is not computed."""

    async def run() -> None:
        gone = [await Connection(server.inference).open() for _ in range(4)]
        for connection in gone:
            connection.writer.write(post("/predictions/echo", b'{"wait": 0.3}'))
        stream = await Connection(server.inference).open()
        body = {"model": "counting", "prompt": "abc", "max_tokens": 150, "stream": True, "temperature": 0}
        stream.writer.write(post("/v1/completions", json.dumps(body).encode()))
        await asyncio.sleep(0.1)
        for connection in [*gone, stream]:
            connection.writer.transport.abort()
        connection = await Connection(server.inference).open()
        assert (await connection.post("/predictions/echo", 1))[0] == 200  # behind four it would have run out of time
        await connection.close()

    asyncio.run(run())
    assert fine(server)


def test_idle_and_slow_connections_do_not_hurt_others(server: Any) -> None:
    async def run() -> list[int]:
        idle = [await Connection(server.inference).open() for _ in range(300)]
        for connection in idle[:50]:
            connection.writer.write(b"POST /predictions/m HTTP/1.1\r\n")
        connection = await Connection(server.inference).open()
        statuses = [(await connection.post("/predictions/m", [[1, 0, 0, 0]]))[0] for _ in range(50)]
        for other in [*idle, connection]:
            await other.close()
        return statuses

    assert set(asyncio.run(run())) == {200}


def test_nothing_of_the_inside_was_said_and_the_server_is_well(server: Any) -> None:
    assert server.process.poll() is None and fine(server)
    assert "a request failed" not in server.log.read_text()
