"""Requests and answers by every route, over real connections to a server in a process of its own."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_client import Connection

MODELS = Path(__file__).parent / "models"
CLIENTS = 32


@pytest.fixture(scope="module")
def server(start: Callable[..., Any], program: Callable[[float, str], Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = tmp_path_factory.mktemp("settings") / "serve.toml"
    settings.write_text(f"""
[[model]]
name = "scaled"
path = "{program(1.0, "scaled.pt2")}"
max_batch_size = 16

[[model]]
name = "echo"
path = "{MODELS}"
handler = "{MODELS / "echo_handler.py"}"
max_batch_size = 8
workers = 2

[[model]]
name = "vectors"
path = "{MODELS}"
handler = "{MODELS / "vectors.py"}"

[[model]]
name = "counting"
path = "{MODELS}"
handler = "{MODELS / "counting.py"}"
max_batch_size = 6
""")
    return start("--config", settings)


def ask(server: Any, *requests: tuple[str, Any], **headers: str) -> list[tuple[int, Any]]:
    """Answers to requests, on one connection."""

    async def run() -> list[tuple[int, Any]]:
        connection = await Connection(server.inference).open()
        answers = [await connection.post(path, body, **headers) for path, body in requests]
        await connection.close()
        return answers

    return asyncio.run(run())


def get(server: Any, path: str, method: str = "GET", url: str | None = None, **headers: str) -> tuple[int, Any]:
    async def run() -> tuple[int, Any]:
        connection = await Connection(url or server.inference).open()
        status, _, body = await connection.request(method, path, **headers)
        await connection.close()
        return status, body

    return asyncio.run(run())


def scaled(rows: Any) -> np.ndarray:
    return np.asarray(rows, np.float32) @ (np.arange(8, dtype=np.float32).reshape(4, 2) + 1)


def test_thousands_of_requests_get_their_own_answers(server: Any) -> None:
    """Rows of different requests share batches, and none is answered with another's."""

    async def client(number: int) -> int:
        connection = await Connection(server.inference).open()
        wrong = 0
        for turn in range(60):
            rows = [[number, turn, 1 + row, number * turn % 7] for row in range(1 + turn % 3)]
            status, answer = await connection.post("/predictions/scaled", rows)
            wrong += status != 200 or not np.allclose(answer, scaled(rows), rtol=1e-5)
            status, answer = await connection.post("/predictions/echo", [number, turn])
            wrong += status != 200 or answer["got"] != [number, turn]
        await connection.close()
        return wrong

    async def run() -> list[int]:
        return await asyncio.gather(*map(client, range(CLIENTS)))

    assert sum(asyncio.run(run())) == 0
    _, text = get(server, "/metrics", url=server.metrics)
    values = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
    batches = float(values['flambeau_batch_size_count{model="scaled",version="1.0"}'])
    requests = float(values['flambeau_requests_total{model="scaled",status="200",version="1.0"}'])
    assert requests == CLIENTS * 60 and batches < requests  # some were put together
    assert float(values['flambeau_request_seconds_count{model="echo",version="1.0"}']) == CLIENTS * 60


def test_tensors_in_torchserves_forms(server: Any) -> None:
    rows = [[1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 0.0, -1.0]]
    expected = scaled(rows).tolist()
    answers = ask(
        server,
        ("/predictions/scaled", rows),
        ("/predictions/scaled/1.0", rows[0]),
        ("/predictions/scaled", {"x": rows}),
        ("/v1/models/scaled:predict", {"instances": rows}),
    )
    assert answers == [(200, expected), (200, expected[0]), (200, expected), (200, {"predictions": expected})]
    stream = io.BytesIO()
    np.save(stream, np.asarray(rows, np.float32))

    async def run() -> bytes:
        connection = await Connection(server.inference).open()
        status, headers, body = await connection.request(
            "POST", "/predictions/scaled", stream.getvalue(), content_type="application/x-npy"
        )
        await connection.close()
        assert status == 200 and headers["content-type"] == "application/x-npy" and headers["x-model-version"] == "1.0"
        return body

    assert np.array_equal(np.load(io.BytesIO(asyncio.run(run()))), scaled(rows))


def test_kserve(server: Any) -> None:
    data = [1, 2, 3, 4, 5, 6, 7, 8]
    entry = {"name": "x", "shape": [2, 4], "datatype": "FP32", "data": data}
    ((status, answer),) = ask(server, ("/v2/models/scaled/infer", {"id": "seven", "inputs": [entry]}))
    output = answer["outputs"][0]
    assert status == 200 and answer["id"] == "seven" and answer["model_name"] == "scaled"
    assert output["shape"] == [2, 2] and output["datatype"] == "FP32"
    assert output["data"] == scaled(np.reshape(data, (2, 4))).reshape(-1).tolist()

    raw = np.asarray(data, np.float32).tobytes()
    entry = {"name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": len(raw)}}
    text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()

    for whole, own, binary in ((False, True, True), (True, False, False), (True, None, True)):
        wanted = {"name": output["name"], **({} if own is None else {"parameters": {"binary_data": own}})}
        asked = {"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": data}], "outputs": [wanted]}
        asked["parameters"] = {"binary_data_output": whole}
        _, body = get(server, "/v2/models/scaled/infer", "POST", body=asked)
        assert (b'"binary_data_size":16' in body) == binary, (whole, own)

    async def run() -> tuple[int, dict[str, str], bytes]:
        connection = await Connection(server.inference).open()
        answer = await connection.request(
            "POST", "/v2/models/scaled/versions/1.0/infer", text + raw, inference_header_content_length=str(len(text))
        )
        await connection.close()
        return answer

    status, headers, body = asyncio.run(run())
    size = int(headers["inference-header-content-length"])
    assert status == 200 and json.loads(body[:size])["outputs"][0]["parameters"] == {"binary_data_size": 16}
    assert struct.unpack("<4f", body[size:]) == tuple(scaled(np.reshape(data, (2, 4))).reshape(-1))
    assert (
        get(server, "/v2/health/live")[0]
        == get(server, "/v2/health/ready")[0]
        == get(server, "/v2/models/scaled/ready")[0]
        == 200
    )
    described = json.loads(get(server, "/v2/models/scaled")[1])
    assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}] and described["versions"] == ["1.0"]
    assert get(server, "/v2/models/none")[0] == 404


def test_handlers_of_torchserve(server: Any) -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\nhello\r\n--b--\r\n'

    async def run() -> None:
        connection = await Connection(server.inference).open()
        status, _, body = await connection.request("POST", "/predictions/echo", b"abc", content_type="image/png")
        assert (status, body) == (200, b"cba")
        status, _, body = await connection.request(
            "POST", "/predictions/echo", form, content_type="multipart/form-data; boundary=b"
        )
        assert (status, json.loads(body)) == (200, {"form": "hello"})
        status, headers, _ = await connection.request("POST", "/predictions/echo", "teapot", x_request_id="tea-1")
        assert status == 418 and headers["x-kind"] == "pot" and "b" not in headers and headers["x-request-id"] == "tea-1"
        status, answer = await connection.post("/predictions/echo", "fail", x_request_id="wrong-1")
        assert status == 500 and "wrong-1" in answer["message"] and "secret" not in json.dumps(answer)
        await connection.close()

    asyncio.run(run())
    assert "a secret of the handler" in server.log.read_text()


def test_one_failing_request_hurts_no_other_in_its_batch(server: Any) -> None:
    async def client(body: Any) -> tuple[int, Any]:
        connection = await Connection(server.inference).open()
        answer = await connection.post("/predictions/echo", body)
        await connection.close()
        return answer

    async def run() -> list[tuple[int, Any]]:
        bodies = [{"wait": 0.1}] * 2 + ["fail" if at % 5 == 0 else at for at in range(20)]
        return (await asyncio.gather(*map(client, bodies)))[2:]

    for at, (status, answer) in enumerate(asyncio.run(run())):
        assert (status == 500) if at % 5 == 0 else (status == 200 and answer["got"] == at)


def test_embeddings(server: Any) -> None:
    texts = ["a", "hello", "zebra crossing"]
    vectors = [[float(len(text)), float(sum(map(ord, text)) % 1000), 1.0] for text in texts]
    answers = ask(
        server,
        ("/v1/embeddings", {"model": "vectors", "input": texts}),
        ("/v1/embeddings", {"model": "vectors:1.0", "input": "hello", "encoding_format": "base64"}),
        ("/predictions/vectors", texts),
        ("/predictions/vectors", {"input": "hello"}),
    )
    assert [entry["embedding"] for entry in answers[0][1]["data"]] == vectors
    assert answers[0][1]["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert np.frombuffer(base64.b64decode(answers[1][1]["data"][0]["embedding"]), "<f4").tolist() == vectors[1]
    assert answers[2] == (200, vectors) and answers[3] == (200, vectors[1])
    answers = ask(
        server,
        ("/v1/embeddings", {"model": "none", "input": "a"}),
        ("/v1/embeddings", {"model": "vectors", "input": [1, 2]}),
        ("/v1/embeddings", {"input": "a"}),
        ("/v1/completions", {"model": "vectors", "prompt": "a"}),
    )
    assert [status for status, _ in answers] == [404, 400, 400, 400]
    assert all(set(answer["error"]) == {"message", "type", "param", "code"} for _, answer in answers)
    assert [model["id"] for model in json.loads(get(server, "/v1/models")[1])["data"]].count("vectors") == 1


def continued(prompt: str, most: int, stop: str = "") -> tuple[str, str]:
    """What the model of the tests makes of a prompt, and why it ends."""
    tokens = [(ord(letter) - 32) % 97 for letter in prompt]
    text = ""
    for _ in range(most):
        token = (sum(token * (at + 1) for at, token in enumerate(tokens)) * 31 + 7) % 97
        if token == 0:
            return text, "stop"
        tokens.append(token)
        text += chr(token + 32)
        if stop and stop in text:
            return text[: text.index(stop)], "stop"
        if len(tokens) >= 200:
            break
    return text, "length"


def test_texts_continue_each_by_itself_in_a_changing_batch(server: Any) -> None:
    async def client(number: int) -> int:
        connection = await Connection(server.inference).open()
        wrong = 0
        for turn in range(6):
            prompt, most = f"{number} and {turn}" * (1 + number % 3), 1 + (number * 7 + turn * 5) % 23
            body = {"model": "counting", "prompt": prompt, "max_tokens": most, "temperature": 0}
            status, answer = await connection.post("/v1/completions", body)
            choice = answer["choices"][0]
            wrong += status != 200 or (choice["text"], choice["finish_reason"]) != continued(prompt, most)
        await connection.close()
        return wrong

    async def run() -> list[int]:
        return await asyncio.gather(*map(client, range(16)))

    assert sum(asyncio.run(run())) == 0


def test_completions_and_chats_and_their_streams(server: Any) -> None:
    text, ended = continued("abc", 12)
    stop = text[4]
    bodies = [
        ("/v1/completions", {"model": "counting", "prompt": ["abc", "x"], "max_tokens": 12, "temperature": 0, "n": 2}),
        ("/v1/completions", {"model": "counting", "prompt": "abc", "max_tokens": 12, "temperature": 0, "stop": stop}),
        ("/v1/chat/completions", {"model": "counting", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
        ("/predictions/counting", {"prompt": "abc", "max_tokens": 12}),
        ("/v1/completions", {"model": "counting", "prompt": "abc", "logprobs": 3}),
        ("/v1/completions", {"model": "counting", "prompt": "abc", "max_tokens": -1}),
        ("/v1/completions", {"model": "counting", "prompt": "a" * 300}),
    ]
    answers = ask(server, *bodies)
    assert [choice["text"] for choice in answers[0][1]["choices"]] == [text, text] + [continued("x", 12)[0]] * 2
    assert answers[0][1]["usage"]["prompt_tokens"] == 4
    assert (answers[1][1]["choices"][0]["text"], answers[1][1]["choices"][0]["finish_reason"]) == continued("abc", 12, stop)
    assert answers[2][1]["choices"][0]["message"]["content"] == continued("user: hi\nassistant:", 5)[0]
    assert answers[3] == (200, {"generated_text": text, "finish_reason": ended})
    assert [status for status, _ in answers[4:]] == [400, 400, 400]

    async def stream(path: str, body: dict[str, Any]) -> list[Any]:
        connection = await Connection(server.inference).open()
        status, headers, body_ = await connection.request(
            "POST", path, {**body, "stream": True, "stream_options": {"include_usage": True}}
        )
        assert status == 200 and headers["content-type"].startswith("text/event-stream")
        events = body_.decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        await connection.close()
        return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]

    events = asyncio.run(stream("/v1/completions", {"model": "counting", "prompt": "abc", "max_tokens": 12, "temperature": 0}))
    assert "".join(event["choices"][0]["text"] for event in events[:-1]) == text and len(events) > 3
    assert events[-2]["choices"][0]["finish_reason"] == ended and events[-1]["usage"]["completion_tokens"] == 12
    events = asyncio.run(stream(*bodies[2]))
    assert (
        "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1])
        == continued("user: hi\nassistant:", 5)[0]
    )
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"


def test_sampled_texts_come_again_from_their_seed(server: Any) -> None:
    body = {"model": "counting", "prompt": "abc", "max_tokens": 8, "temperature": 2.0, "top_p": 1.0, "seed": 3}
    answers = ask(server, *[("/v1/completions", body)] * 2)
    assert answers[0][1]["choices"] == answers[1][1]["choices"]
