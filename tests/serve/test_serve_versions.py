"""Versions, workers that die, reloads and the end of the server, all under load; the management port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from http_client import Connection

from flambeau.serve import archives

MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="module")
def store(program: Callable[[float, str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model store with archives of two versions, an archive with a handler, and one that leads out of it."""
    folder = tmp_path_factory.mktemp("store")
    for version, scale in (("1.0", 1.0), ("2.0", 2.0)):
        path = program(scale, f"v{version}.pt2")
        arguments = ["--model-name", "m", "--version", version, "--serialized-file", str(path), "--export-path", str(folder)]
        assert archives.main(arguments) == 0
        (folder / "m.mar").rename(folder / f"m{version}.mar")
    handler = str(MODELS / "echo_handler.py")
    assert archives.main(["--model-name", "echo", "--handler", handler, "--export-path", str(folder)]) == 0
    with zipfile.ZipFile(folder / "bad.mar", "w") as archive:
        archive.writestr(archives.MANIFEST, json.dumps({"model": {"modelName": "bad", "handler": "h.py"}}))
        archive.writestr("../escaped.py", "raise SystemExit")
    return folder


@pytest.fixture(scope="module")
def server(start: Callable[..., Any], store: Path) -> Any:
    return start(store / "m1.0.mar", "--model-store", store, "--workers", 2, "--timeout", 20)


def manage(server: Any, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    async def run() -> tuple[int, Any]:
        connection = await Connection(server.management).open()
        given = {"authorization": server.bearer, **headers}
        status, _, text = await connection.request(method, path, body, **given)
        await connection.close()
        return status, json.loads(text)

    return asyncio.run(run())


Answers = list[tuple[int, Any]]


async def under_load(
    server: Any, path: str, body: Any, meanwhile: Callable[[Answers], Awaitable[None]], clients: int = 8
) -> Answers:
    """All answers to clients that ask again and again until something is done, which sees them come."""
    done = asyncio.Event()
    answers: Answers = []

    async def client() -> None:
        connection = await Connection(server.inference).open()
        while not done.is_set():
            answers.append(await connection.post(path, body))
        await connection.close()

    async def act() -> None:
        try:
            await meanwhile(answers)
        finally:
            done.set()

    await asyncio.gather(act(), *(client() for _ in range(clients)))
    return answers


def test_the_archives_own_name_and_version(server: Any) -> None:
    status, found = manage(server, "GET", "/models/m")
    assert status == 200 and found[0]["modelVersion"] == "1.0" and len(found[0]["workers"]) == 2
    assert manage(server, "GET", "/models")[1]["models"][0]["modelName"] == "m"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic x", "Bearer \xff"])
def test_management_asks_for_the_token(server: Any, header: str) -> None:
    assert manage(server, "GET", "/models", authorization=header)[0] == 401


def test_killed_workers_lose_no_request(server: Any) -> None:
    """What a killed worker had is given to another, and its client doesn't notice."""
    killed: list[int] = []

    async def kill(answers: Answers) -> None:
        connection = await Connection(server.management).open()

        async def described() -> Any:
            _, _, text = await connection.request("GET", "/models/m", authorization=server.bearer)
            return json.loads(text)[0]

        for _ in range(6):
            while not (alive := [one["pid"] for one in (await described())["workers"] if one["pid"] not in (0, *killed)]):
                await asyncio.sleep(0.01)
            os.kill(alive[0], signal.SIGKILL)
            killed.append(alive[0])
            before = len(answers)
            while len(answers) < before + 40:  # what was given to another worker is first in the queue, and answered by then
                await asyncio.sleep(0.01)
        while (await described())["deaths"] < 6:
            await asyncio.sleep(0.01)
        await connection.close()

    answers = asyncio.run(under_load(server, "/predictions/m", [1, 0, 0, 0], kill))
    assert {json.dumps(answer) for answer in answers} == {"[200, [1.0, 2.0]]"}
    found = manage(server, "GET", "/models/m")[1][0]
    assert found["deaths"] == 6 and len(found["workers"]) <= 2 and found["reason"] == ""


def test_the_process_that_loaded_a_model_is_replaced_too(server: Any) -> None:
    """Workers answer on while it is gone; later ones are forked from the new one."""

    def parent() -> int:
        worker = manage(server, "GET", "/models/m")[1][0]["workers"][0]["pid"]
        return int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])

    async def ask() -> tuple[int, Any]:
        connection = await Connection(server.inference).open()
        answer = await connection.post("/predictions/m", [1, 0, 0, 0])
        await connection.close()
        return answer

    first = parent()
    os.kill(first, signal.SIGKILL)
    assert asyncio.run(ask()) == (200, [1.0, 2.0])
    for worker in manage(server, "GET", "/models/m")[1][0]["workers"]:
        os.kill(worker["pid"], signal.SIGKILL)
    assert asyncio.run(ask()) == (200, [1.0, 2.0])  # it waits until there are workers again
    assert parent() not in (first, 1)


def test_versions_are_loaded_weighed_and_rolled_back_under_load(server: Any) -> None:
    """The second version gets requests when it is told to, sticky clients keep theirs, and no request is lost."""
    found: dict[str, Any] = {}

    async def act(_: Answers) -> None:
        connection = await Connection(server.management).open()
        other = await Connection(server.inference).open()

        async def do(method: str, path: str, body: Any = None) -> Any:
            status, _, text = await connection.request(method, path, body, authorization=server.bearer)
            assert status == 200, text
            return json.loads(text)

        async def versions(**headers: str) -> set[str]:
            seen = set()
            for _ in range(40):
                _, got, _ = await other.request("POST", "/predictions/m", [1, 0, 0, 0], **headers)
                seen.add(got["x-model-version"])
            return seen

        await do("POST", "/models?url=m2.0.mar")
        found["loaded"] = await versions()
        await do("PUT", "/models/m/weights", {"1.0": 50, "2.0": 50})
        found["weighed"] = await versions()
        found["sticky"] = [await versions(x_sticky_id=f"client {at}") for at in range(6)]
        await do("PUT", "/models/m/2.0/set-default")
        found["default"] = await versions()
        await do("POST", "/models/m/rollback")
        found["back"] = await versions()
        await do("POST", "/models/m/rollback")
        found["back twice"] = await versions()
        await do("POST", "/models/m/1.0/reload")
        found["described"] = await do("GET", "/models/m/all")
        await do("DELETE", "/models/m/2.0")
        await connection.close()
        await other.close()

    answers = asyncio.run(under_load(server, "/predictions/m", [1, 0, 0, 0], act, clients=4))
    assert {json.dumps(answer) for answer in answers} == {"[200, [1.0, 2.0]]", "[200, [2.0, 4.0]]"}
    assert found["loaded"] == {"1.0"} and found["weighed"] == {"1.0", "2.0"} and found["default"] == {"2.0"}
    assert all(len(seen) == 1 for seen in found["sticky"]) and len(set().union(*found["sticky"])) == 2
    assert found["back"] == {"1.0", "2.0"} and found["back twice"] == {"1.0"}
    assert {entry["modelVersion"] for entry in found["described"]} == {"1.0", "2.0"}
    assert manage(server, "GET", "/models/m/2.0")[0] == 404


def test_what_management_refuses(server: Any, store: Path) -> None:
    for path, status in (
        ("/models", 400),
        ("/models?url=http://127.0.0.1:9/m.mar", 400),
        ("/models?url=../../etc/passwd", 400),
        ("/models?url=/etc/passwd", 400),
        ("/models?url=none.mar", 400),
        ("/models?url=bad.mar", 400),
        ("/models?url=%00", 400),
        ("/models?url=" + "a" * 5000, 400),
        ("/models?url=already", 400),
        ("/models?url=m1.0.mar", 409),
        ("/models?url=m2.0.mar&initial_workers=many", 400),
        ("/models?url=m2.0.mar&handler=/etc/passwd", 400),
        ("/models?url=m2.0.mar&model_name=..%2Fx", 400),
    ):
        assert manage(server, "POST", path)[0] == status, path
    for body in ({"9.0": 1}, {"1.0": -1}, {"1.0": 0}, {"1.0": "all"}, [], "x", {"1.0": True}):
        assert manage(server, "PUT", "/models/m/weights", body)[0] == 400, body
    assert manage(server, "DELETE", "/models/none")[0] == 404
    for method, path, status in (
        ("POST", "/models?url=flow.war", 501),
        ("GET", "/workflows", 501),
        ("GET", "/models/m?customized=true", 501),
        ("GET", "/nothing", 404),
        ("PATCH", "/models/m", 405),
    ):
        got, answer = manage(server, method, path)
        assert got == answer["code"] == status, path
    assert not (store.parent / "escaped.py").exists() and "Traceback" not in str(manage(server, "POST", "/models?url=bad.mar"))


def test_a_model_that_cannot_be_served_says_why_and_others_go_on(server: Any, store: Path) -> None:
    (store / "broken.pt2").write_bytes(b"no program")
    status, answer = manage(server, "POST", "/models?url=broken.pt2")
    assert status == 400 and "can't be served" in answer["message"]
    assert manage(server, "GET", "/models/m")[0] == 200


def test_requests_that_kill_their_worker_hurt_only_themselves(server: Any) -> None:
    """A request that ends the process is given to a second worker, and then answered 503; those beside it are answered."""
    assert manage(server, "POST", "/models?url=echo.mar&batch_size=4")[0] == 200

    async def client(body: Any) -> tuple[int, Any]:
        connection = await Connection(server.inference).open()
        answer = await connection.post("/predictions/echo", body)
        await connection.close()
        return answer

    async def run() -> list[tuple[int, Any]]:
        return await asyncio.gather(*map(client, [{"wait": 0.2}, "die", 1, 2, 3]))

    answers = asyncio.run(run())
    assert answers[1][0] == 503
    assert asyncio.run(client("die and leave a process"))[0] == 503  # which holds the worker's connection
    assert [answer[0] for answer in answers[2:]] == [200, 200, 200]
    assert manage(server, "PUT", "/models/echo?min_worker=0")[0] == 202
    assert asyncio.run(client(1))[0] == 503
    scaled = manage(server, "PUT", "/models/echo/1.0?min_worker=1&synchronous=true")
    assert scaled == (200, {"status": "Workers scaled to 1 for model: echo, version: 1.0"})
    assert asyncio.run(client(1))[0] == 200
    unpacked = list(Path(server.token_file).parent.glob("model-*/*.py"))
    assert manage(server, "DELETE", "/models/echo")[0] == 200
    assert asyncio.run(client(1))[0] == 404
    assert len(unpacked) == 1
    while unpacked[0].exists():
        time.sleep(0.01)


def test_the_page_asks_nothing_of_other_hosts_and_shows_nothing_without_the_token(server: Any) -> None:
    async def run() -> tuple[dict[str, str], bytes]:
        connection = await Connection(server.management).open()
        status, headers, body = await connection.request("GET", "/")
        await connection.close()
        assert status == 200
        return headers, body

    headers, body = asyncio.run(run())
    assert "default-src 'none'" in headers["content-security-policy"] and b"http://" not in body and b"https://" not in body
    assert server.token.encode() not in body
    status, found = manage(server, "GET", "/status")
    assert status == 200 and {"p50", "p99", "per_second", "batch", "memory"} <= set(found["versions"][0])
    assert manage(server, "GET", "/status", authorization="")[0] == 401
    assert manage(server, "POST", "/try/m", [1, 0, 0, 0]) == (200, [1.0, 2.0])


def test_the_server_ends_after_what_is_under_way_and_leaves_nothing(server: Any) -> None:
    """The last of the module's tests. Service managers send the signal to all processes at once."""
    assert manage(server, "POST", "/models?url=echo.mar")[0] == 200
    folder = Path(server.token_file).parent

    def children(process: int) -> list[int]:
        threads = Path(f"/proc/{process}/task").iterdir()
        own = [int(one) for thread in threads for one in (thread / "children").read_text().split()]
        return own + [other for one in own for other in children(one)]

    async def run() -> tuple[int, Any, list[int], int]:
        connection = await Connection(server.inference).open()
        assert (await connection.post("/predictions/echo", {"start": 1}))[0] == 200
        waiting = asyncio.ensure_future(connection.post("/predictions/echo", {"wait": 0.5}))
        await asyncio.sleep(0.2)
        processes = children(server.process.pid)
        started = [process for process in processes if b"sleep" in Path(f"/proc/{process}/cmdline").read_bytes()[:5]]
        processes.remove(*started)  # what the handler has started doesn't expect the signal
        for process in processes:
            os.kill(process, signal.SIGTERM)
        server.process.send_signal(signal.SIGTERM)
        return *await waiting, processes, *started

    status, answer, processes, started = asyncio.run(run())
    assert status == 200 and answer["got"] == {"wait": 0.5} and answer["process"] in processes  # none was asked again
    assert server.end() == 0
    left = [process for process in processes if Path(f"/proc/{process}").exists()]
    assert len(processes) >= 5 and not left and not folder.exists()
    for _ in range(3000):  # it was killed, and has init to wait for it
        if not Path(f"/proc/{started}").exists():
            return
        time.sleep(0.01)
    pytest.fail("what the handler has started is still there")
