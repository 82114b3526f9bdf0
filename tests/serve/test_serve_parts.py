"""Parts of the server by themselves: archives, settings, JSON, messages, batches, weights."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import flambeau as torch
from flambeau.serve import archives, frames, json_bodies
from flambeau.serve.answers import Item, Refused, as_json
from flambeau.serve.handlers.base import BaseHandler, Context
from flambeau.serve.handlers.completions import certain
from flambeau.serve.handlers.generation import GenerationService, TextModel
from flambeau.serve.handlers.programs import ProgramService, bucket_sizes
from flambeau.serve.handlers.tensors import Spec, from_lists
from flambeau.serve.handlers.texts import TextService, of_like_length
from flambeau.serve.pool import Worker
from flambeau.serve.settings import ModelSettings, Wrong, converted, model_from_argument, read_file
from flambeau.serve.tickets import Ticket

MANIFEST = json.dumps({"model": {"modelName": "m", "handler": "base_handler"}})


def archive_of(path: Path, *names: str, mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(archives.MANIFEST, MANIFEST)
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, "text")
    return path


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a\\..\\x", "C:/x", "a/./../../x"])
def test_names_that_lead_out_of_an_archive(tmp_path: Path, name: str) -> None:
    path = archive_of(tmp_path / "a.mar", name)
    for read in (lambda: archives.read_manifest(str(path)), lambda: archives.unpack(str(path), str(tmp_path / "out"))):
        with pytest.raises(archives.BadArchive, match="leads out"):
            read()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.mar"]


def test_links_and_names_given_twice(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.mar", "link", mode=stat.S_IFLNK | 0o777)
    with pytest.raises(archives.BadArchive, match="neither a file nor a folder"):
        archives.unpack(str(path), str(tmp_path / "out"))
    with pytest.warns(UserWarning, match="Duplicate"):
        path = archive_of(tmp_path / "b.mar", "x", "x")
    with pytest.raises(archives.BadArchive, match="twice"):
        archives.unpack(str(path), str(tmp_path / "out"))


def test_an_archive_that_is_larger_than_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.mar", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(1 << 20))
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: SimpleNamespace(free=(1 << 20) - 1))
    with pytest.raises(archives.BadArchive, match="has room for"):
        archives.unpack(str(tmp_path / "a.mar"), str(tmp_path / "out"))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "manifest", ["[]", "{", "{}", '{"model": {"serializedFile": "../x"}}', '{"model": {"handler": 3}}', "[" * 9999]
)
def test_manifests_that_are_none(tmp_path: Path, manifest: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.mar", "w") as archive:
        archive.writestr(archives.MANIFEST, manifest)
    with pytest.raises(archives.BadArchive):
        archives.read_manifest(str(tmp_path / "a.mar"))
    (tmp_path / "b.mar").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(archives.BadArchive):
        archives.read_manifest(str(tmp_path / "b.mar"))


def test_archives_are_written_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.pt").write_bytes(b"weights")
    (tmp_path / "h.py").write_text("x = 1\n")
    arguments = [
        "--model-name",
        "m",
        "-v",
        "2.1",
        "--serialized-file",
        str(tmp_path / "w.pt"),
        "--handler",
        f"{tmp_path / 'h.py'}:H",
    ]
    assert archives.main([*arguments, "--export-path", str(tmp_path)]) == 0
    assert archives.main([*arguments, "--export-path", str(tmp_path)]) == 1 and "--force" in capsys.readouterr().err
    assert archives.main([*arguments, "--export-path", str(tmp_path), "--force"]) == 0
    model = archives.read_manifest(str(tmp_path / "m.mar"))["model"]
    assert model == {"modelName": "m", "modelVersion": "2.1", "serializedFile": "w.pt", "handler": "h.py:H"}
    archives.unpack(str(tmp_path / "m.mar"), str(tmp_path / "out"))
    assert (tmp_path / "out" / "w.pt").read_bytes() == b"weights" and (tmp_path / "out" / "h.py").exists()


def test_torchserves_base_handler_loads_weights_without_running_them(tmp_path: Path) -> None:
    (tmp_path / "net_of_test.py").write_text(
        "import flambeau as torch\n\n\nclass Net(torch.nn.Linear):\n"
        "    def __init__(self):\n        super().__init__(2, 1, bias=False)\n"
    )
    torch.save({"weight": torch.tensor([[1.0, 2.0]])}, tmp_path / "w.pt")
    manifest = {"model": {"serializedFile": "w.pt", "modelFile": "net_of_test.py"}}
    handler = BaseHandler()
    handler.initialize(Context(str(tmp_path), manifest, 1, "m", "1.0"))
    assert handler.handle([{"body": [3.0, 4.0]}, {"data": [1.0, 0.0]}], handler.context) == [[11.0], [1.0]]


def test_settings(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('port = 1\n[[model]]\npath = "a.pt2"\nworkers = 3\n')
    table, models = read_file(str(tmp_path / "s.toml"))
    assert table == {"port": 1} and converted(ModelSettings, models[0]) == {"path": "a.pt2", "workers": 3}
    assert model_from_argument("x/mlp.pt2@7") == ModelSettings("mlp", "x/mlp.pt2", "7")
    assert model_from_argument("n=x/mlp.pt2").name == "n"
    for values, words in (
        ({"workers": "x"}, "must be int"),
        ({"worker": 1}, "there is no setting"),
        ({"timeout": None}, "must be float"),
    ):
        with pytest.raises(Wrong, match=words):
            converted(ModelSettings, values)
    for values in ({"name": "../x"}, {"version": "a/b"}, {"queue_size": 0}, {"max_batch_size": 0}):
        with pytest.raises(Wrong):
            ModelSettings(**{"name": "m", "path": "p", **values})
    with pytest.raises(Wrong, match=r"s\.toml"):
        (tmp_path / "s.toml").write_text("port = ")
        read_file(str(tmp_path / "s.toml"))


@pytest.mark.parametrize(
    ("body", "depth", "fine"),
    [
        (b"[[1]]", 2, True),
        (b"[[[1]]]", 2, False),
        (b"[[1],[2],[3]]", 2, True),
        (b'["[[[[", {"a": 1}]', 2, True),
        (b'["\\"[[["]', 1, True),
        (b'[[],[],"' + b'\\"' * 100_000, 2, True),  # a string that doesn't end is read once, not from each of its quotes
        (b'[[],[],"' + b"a" * 100_000 + b"\\", 2, True),
    ],
)
def test_depth(body: bytes, depth: int, fine: bool) -> None:
    assert json_bodies.depth_within(body, depth) is fine


def test_json_has_no_nan() -> None:
    assert as_json([1.5, float("nan"), {"a": float("inf")}]) == b'[1.5,null,{"a":null}]'
    with pytest.raises(Refused):
        json_bodies.read(b"[NaN]", 8)


def test_messages_come_whole_however_they_are_cut() -> None:
    sent = frames.packed({"a": 1}, [b"xyz", b""]) + frames.packed({"b": 2}) + frames.packed({"c": 3}, [b"\0" * 100])
    for size in (1, 7, 50, 1000):
        buffer = frames.Buffer()
        got = [frame for at in range(0, len(sent), size) for frame in buffer.feed(sent[at : at + size])]
        assert [parts for _, parts in got] == [[b"xyz", b""], [], [b"\0" * 100]] and got[1][0]["b"] == 2


def service(function: Any, most: int) -> ProgramService:
    return ProgramService(function, [Spec("x", (None, 2), torch.float32)], None, most)


def asked(*bodies: str) -> list[Item]:
    return [Item(str(at), "predict", body.encode()) for at, body in enumerate(bodies)]


def test_batches_are_filled_up_to_few_sizes_and_taken_apart() -> None:
    assert bucket_sizes(1) == [1] and bucket_sizes(6) == [1, 2, 4, 6] and bucket_sizes(8) == [1, 2, 4, 8]
    sizes = []

    def function(x: torch.Tensor) -> torch.Tensor:
        sizes.append(x.shape[0])
        return x.sum(1)

    answers = service(function, 4).answer(asked("[[1, 2], [3, 4]]", "[5, 6]", "[[7]]", "[[1, 1], [2, 2], [3, 3]]"))
    assert [answer.body for answer in answers[:2]] == [b"[3.0,7.0]", b"11.0"] and answers[2].status == 400
    assert answers[3].body == b"[2.0,4.0,6.0]" and sizes == [4, 4]
    assert service(function, 2).answer(asked("[[1, 2], [3, 4], [5, 6]]"))[0].status == 413


def test_a_program_that_gives_no_row_per_row_is_not_taken_apart() -> None:
    answers = service(lambda x: x.sum(), 4).answer(asked("[[1, 2]]", "[[3, 4]]"))
    assert [answer.status for answer in answers] == [400, 400] and b"max_batch_size must be 1" in answers[0].body
    assert service(lambda x: x.sum(), 1).answer(asked("[[1, 2], [3, 4]]"))[0].body == b"10.0"


def test_inputs_that_a_dtype_does_not_hold() -> None:
    spec = Spec("x", None, torch.int32)
    assert spec.check(torch.tensor([1, 2])).dtype is torch.int32
    for tensor in (torch.tensor([1 << 40]), torch.tensor([1.5])):
        with pytest.raises(Refused):
            spec.check(tensor)


def test_numbers_of_json_in_the_dtype_of_the_input() -> None:
    double = ProgramService(lambda x: x * 1, [Spec("x", (None,), torch.float64)], None, 1)
    assert double.answer(asked("[0.1, 1e300]"))[0].body == b"[0.1,1e+300]"
    for body in ("[1e999]", '{"x": [-1e999]}'):
        assert double.answer(asked(body))[0].status == 400
    single = ProgramService(lambda x: x * 1, [Spec("x", (None,), torch.float32)], None, 1)
    assert single.answer(asked("[1e39]"))[0].status == 400
    half = Spec("x", None, torch.float16)
    assert half.check(torch.tensor([1.5, float("inf")])).tolist() == [1.5, float("inf")]
    with pytest.raises(Refused):
        half.check(torch.tensor([1e6]))


def test_one_long_text_is_not_a_length_for_all() -> None:
    with pytest.raises(Refused):  # as NumPy's array of texts it had 17 TB
        from_lists(["a" * (1 << 24)] + ["b"] * (1 << 18), "x")
    with pytest.raises(Refused):
        from_lists([[1.0, "a" * (1 << 24)], ["b"] * (1 << 18)], "x")


def test_a_request_that_cannot_be_read_hurts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    own = service(lambda x: x.sum(1), 4)
    read = own.read

    def failing(item: Item) -> Any:
        if b"7" in item.body:
            raise MemoryError
        return read(item)

    monkeypatch.setattr(own, "read", failing)
    assert [answer.status for answer in own.answer(asked("[1, 2]", "[7, 7]", "[3, 4]"))] == [200, 500, 200]


def test_a_prompt_that_fails_hurts_no_text_beside_it() -> None:
    class Model(TextModel):
        max_length = 30

        def encode(self, text: str) -> list[int]:
            return [ord(letter) % 50 for letter in text]

        def decode(self, tokens: list[int]) -> str:
            return "".join(chr(97 + token) for token in tokens)

        def forward(self, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Any) -> Any:
            if (tokens > 60).any():
                raise IndexError("no such token")
            keys = torch.zeros(len(tokens), 1, mask.shape[1], 1)
            return torch.nn.functional.one_hot((tokens[:, -1:] + 1) % 20, 64).float(), [(keys, keys)]

    own = GenerationService(Model(), 4)
    ready: list[tuple[str, Any]] = []
    assert own.admit(Item("first", "completions", b'{"prompt": [1], "max_tokens": 4, "temperature": 0}')) is None
    own.step(ready)
    for id, prompt in (("bad", "[99]"), ("second", "[5]")):
        assert own.admit(Item(id, "completions", f'{{"prompt": {prompt}, "max_tokens": 2, "temperature": 0}}'.encode())) is None
    while own.busy():
        own.step(ready)
    found = {id: (answer.status, json.loads(answer.body).get("choices", [{}])[0].get("text")) for id, answer in ready}
    assert found == {"first": (200, "cdef"), "bad": (500, None), "second": (200, "gh")}


def test_what_of_a_stream_is_certain() -> None:
    assert certain("hello", []) == 5 and certain("hello", ["lox"]) == 3 and certain("hell\ufffd", []) == 4
    assert certain("abab", ["abac"]) == 2


def test_weights_take_sticky_clients_the_same_way() -> None:
    pytest.importorskip("prometheus_client", reason="flambeau[serve] isn't installed")
    from flambeau.serve.registry import Model

    model = Model("m")
    model.versions = {"1": "one", "2": "two"}  # type: ignore[dict-item]
    model.set_weights({"1": 75, "2": 25})
    found = [model.choose(f"client {at}") for at in range(2000)]
    assert found == [model.choose(f"client {at}") for at in range(2000)] and 0.7 < found.count("one") / 2000 < 0.8
    model.set_weights({"2": 1})
    assert model.choose(None) == "two" and model.default == "2"
    model.roll_back()
    assert model.weights == {"1": 75, "2": 25}
    for weights in ({"3": 1}, {"1": 0}, {"1": float("nan")}, {"1": True}):
        with pytest.raises(Wrong):
            model.set_weights(weights)
    with pytest.raises(Wrong, match="no change"):
        model.roll_back()


def test_what_a_worker_answered_before_it_died_is_read() -> None:
    """The loop finds out by writing to it; its last answer is in the socket, and must not be computed again."""

    async def run() -> tuple[Any, list[Any]]:
        lost: list[Any] = []
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        pool: Any = SimpleNamespace(depth=64, pump=lambda: None, lost=lost.append)
        loop = asyncio.get_running_loop()
        _, worker = await loop.create_connection(lambda: Worker(pool, ours, bytearray(8)), sock=ours)
        ticket = Ticket("1", {}, b"", 0.0, loop)
        worker.send(1, [ticket])
        theirs.sendall(frames.packed({"answers": [{"id": "1", "status": 200, "type": "text/plain"}]}, [b"answered"]))
        theirs.close()
        worker.send(2, [Ticket("2", {}, b"", 0.0, loop)])
        while not lost:
            await asyncio.sleep(0)
        return ticket.future.result()[1], list(lost[0].tickets)

    assert asyncio.run(run()) == (b"answered", ["2"])


def test_texts_of_like_length_are_computed_together() -> None:
    """Each is filled up to the longest of its call, so that a long one costs only those beside it."""
    lengths = [40, 3, 20, 3, 41, 2, 3, 3, 2, 3, 3, 40, 21, 3]
    groups = of_like_length(["x" * length for length in lengths])
    assert sorted(at for group in groups for at in group) == list(range(len(lengths)))
    assert [[lengths[at] for at in group] for group in groups] == [[2, 2, 3, 3, 3, 3, 3, 3], [3, 20, 21, 40, 40, 41]]
    assert of_like_length([]) == []
    assert of_like_length(["abcdefg", "a"]) == [[1, 0]]  # few are computed by one call

    calls = []

    def encode(texts: list[str]) -> torch.Tensor:
        calls.append(list(texts))
        return torch.tensor([[float(len(text)), float(ord(text[0]))] for text in texts])

    service = TextService(encode, 32, vectors=True)
    texts = [chr(ord("a") + at) * length for at, length in enumerate(lengths)]
    bodies = [json.dumps(texts[:5]), *map(json.dumps, texts[5:])]
    answers = service.answer([Item(str(at), "predict", body.encode()) for at, body in enumerate(bodies)])
    found = [json.loads(answer.body) for answer in answers]
    assert [*found[0], *found[1:]] == [[float(length), float(ord(text[0]))] for length, text in zip(lengths, texts)]
    assert sorted(map(len, calls)) == [6, 8]
