"""Where checkpoints lie other than in files of torch.save: safetensors files, fsspec's file systems, transformed streams.

And what is done with damaged and hostile files, with copies in the background, and with arguments of writers.
"""

import datetime
import io
import json
import logging
import pathlib
import random
import struct
import threading
from concurrent.futures import Future

import numpy
import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint import format_utils
from flambeau.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from flambeau.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension
from flambeau.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from flambeau.distributed.checkpoint.filesystem import SerializationFormat
from flambeau.distributed.checkpoint.logger import _dcp_logger
from flambeau.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager, DefaultStager, StagingOptions
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from flambeau.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse
from flambeau.serialize import safetensors_format

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def tensors():
    return {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": {"c": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "d": torch.tensor(7)},
        "e": torch.zeros(0, 4, dtype=torch.bool),
    }


def blank(state):
    return {k: blank(v) if isinstance(v, dict) else torch.full_like(v, 1) for k, v in state.items()}


def same(found, wanted):
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    return found.dtype == wanted.dtype and torch.equal(found, wanted)


def loaded(reader, like):
    state = blank(like)
    dcp.load(state, storage_reader=reader)
    return state


def header_of(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def test_safetensors_files(tmp_path):
    state = tensors()
    files = {"a": 1, "b.c": 2, "b.d": 2, "e": 1}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path), files, thread_count=2))
    assert same(loaded(dcp.HuggingFaceStorageReader(str(tmp_path), thread_count=2), state), state)
    header = header_of(tmp_path / "model-00002-of-00002.safetensors")
    assert header["b.c"] == {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]}  # longest elements come first
    assert header["__metadata__"]["format"] == "pt"
    assert json.loads(header["__metadata__"]["DCP_SHARDING_INFO"])["b.c"] == {"saved_offsets": [0]}
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 24 + 4 + 8
    assert index["weight_map"]["b.d"] == "model-00002-of-00002.safetensors"
    for bad, words in (({"x": 3}, "is no tensor"), ({"z": torch.zeros(1)}, "has no file for z")):
        with pytest.raises(dcp.CheckpointException, match=words):
            dcp.save(bad, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path), {"x": 1}))


def test_parts_in_safetensors_files_become_whole(tmp_path):
    whole = torch.arange(60).reshape(3, 4, 5)
    boxes = [(0, 0, 0, 3, 4, 2), (0, 0, 2, 1, 4, 3), (1, 0, 2, 2, 1, 3), (1, 1, 2, 2, 3, 3)]
    for number, (x, y, z, dx, dy, dz) in enumerate(boxes):
        part = whole[x : x + dx, y : y + dy, z : z + dz]
        with open(tmp_path / f"shard-{number}.safetensors", "wb") as file:
            info = json.dumps({"w": {"saved_offsets": [x, y, z]}})
            safetensors_format.write_file(file, {"w": part}, {"DCP_SHARDING_INFO": info})
    consolidate_safetensors_files(str(tmp_path), str(tmp_path / "out"), {"w": 1}, num_threads=2)
    with open(tmp_path / "out" / "model-00001-of-00001.safetensors", "rb") as file:
        header = safetensors_format.read_header(file)
        assert torch.equal(safetensors_format.read_tensor(file, header, "w"), whole)
        assert torch.equal(safetensors_format.read_tensor(file, header, "w", (1, 3)), whole[1:])
    (tmp_path / "shard-2.safetensors").unlink()
    with pytest.raises(ValueError, match="the parts of w"):
        consolidate_safetensors_files(str(tmp_path), str(tmp_path / "out"), {"w": 1})


def test_weights_with_scales_are_read_as_floats(tmp_path):
    torch.manual_seed(0)
    scales = torch.rand(2, 3) + 0.5
    weight = torch.randn(5, 9).to(torch.float8_e4m3fn)
    with open(tmp_path / "model.safetensors", "wb") as file:
        safetensors_format.write_file(file, {"x.weight": weight, "x.weight_scale_inv": scales, "y": torch.ones(2)}, {})
    wanted = weight.float() * scales.repeat_interleave(3, 0)[:5].repeat_interleave(3, 1)
    state = {"x.weight": torch.zeros(5, 9), "y": torch.zeros(2)}
    dcp.load(state, storage_reader=dcp.QuantizedHuggingFaceStorageReader(str(tmp_path), block_size=3))
    assert torch.equal(state["x.weight"], wanted)
    assert torch.equal(state["y"], torch.ones(2))


def test_damaged_safetensors_files_are_errors(tmp_path):
    path = tmp_path / "model.safetensors"
    with open(path, "wb") as file:
        safetensors_format.write_file(file, {"a": torch.arange(6.0), "b": torch.ones(2, 2)}, {"k": "v"})
    whole = path.read_bytes()
    header_end = 8 + struct.unpack("<Q", whole[:8])[0]
    chooser = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chooser.randrange(header_end)] ^= 1 << chooser.randrange(8)
        with io.BytesIO(bytes(damaged)) as file:
            try:
                found = safetensors_format.read_header(file)
                for name in found.entries:
                    safetensors_format.read_tensor(file, found, name)
            except ValueError:
                pass  # and nothing else
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=r"cut off|damaged|gaps"):
            safetensors_format.read_header(io.BytesIO(whole[:end]))
    bomb = {"a": {"dtype": "U8", "shape": [2**62], "data_offsets": [0, 2**62]}}
    for header in (bomb, {"a": [1]}, {"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}, [], 3):
        text = json.dumps(header).encode()
        with pytest.raises(ValueError):
            safetensors_format.read_header(io.BytesIO(struct.pack("<Q", len(text)) + text + b"0000"))


class Flipped(StreamTransformExtension):
    """Every bit the other way round."""

    @staticmethod
    def registry_name():
        return "test.flipped"

    @staticmethod
    def from_descriptor(version):
        assert version == "2"
        return Flipped()

    def get_descriptor(self):
        return "test.flipped/2"

    def transform_to(self, output):
        class Stream(io.RawIOBase):
            def writable(self):
                return True

            def write(self, data):
                output.write(bytes(255 - each for each in bytes(data)))
                return len(data)

        return Stream()

    def transform_from(self, input):
        return io.BytesIO(bytes(255 - each for each in input.read()))


def test_arguments_of_the_folders_writer(tmp_path):
    state = {**tensors(), "step": 3}
    writer = dcp.FileSystemWriter(tmp_path / "threads", thread_count=3)
    dcp.save(state, storage_writer=writer)
    assert len(list((tmp_path / "threads").glob("*.distcp"))) == 3
    dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path / "single", single_file_per_rank=False))
    assert len(list((tmp_path / "single").glob("*.distcp"))) == 5
    for name in ("threads", "single"):
        found = {**blank(tensors()), "step": 0}
        dcp.load(found, checkpoint_id=tmp_path / name)
        assert found.pop("step") == 3
        assert same(found, tensors())
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path / "single", overwrite=False))
    with pytest.raises(NotImplementedError, match="HuggingFaceStorageWriter"):
        dcp.FileSystemWriter(tmp_path, serialization_format=SerializationFormat.SAFETENSORS)
    with pytest.raises(TypeError):
        dcp.FileSystemWriter(tmp_path, threads=3)


def test_transformed_entries(tmp_path):
    dcp.save(tensors(), storage_writer=dcp.FileSystemWriter(tmp_path, _extensions=[Flipped()]))
    assert b"PK" not in (tmp_path / "__0_0.distcp").read_bytes()[:2]
    with pytest.raises(dcp.CheckpointException, match=r"Unknown extension name='test\.flipped'"):
        dcp.load(tensors(), checkpoint_id=tmp_path)
    registry = ExtensionRegistry()
    registry.register(Flipped)
    assert same(loaded(dcp.FileSystemReader(tmp_path, _extension_registry=registry), tensors()), tensors())


def test_addresses_of_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    state = {**tensors(), "step": 3}
    dcp.save(state, checkpoint_id="memory://there/one")
    found = {**blank(tensors()), "step": 0}
    dcp.load(found, checkpoint_id="memory://there/one")
    assert found.pop("step") == 3
    assert same(found, tensors())
    dcp.save(state, storage_writer=FsspecWriter(f"file://{tmp_path}/two", auto_mkdir=True))
    assert same(loaded(FsspecReader(f"file://{tmp_path}/two"), tensors()), tensors())
    dcp.save(state, checkpoint_id="memory://there/one")  # in place of the first: its files are gone
    assert len(fsspec.filesystem("memory").ls("there/one")) == 2
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        dcp.save(state, storage_writer=FsspecWriter("memory://there/one", overwrite=False))
    with pytest.raises(RuntimeError, match="neither a folder nor an address"):
        dcp.save(state, checkpoint_id="nosuchthing://there")


def test_addresses_without_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(ImportError, match="pip install fsspec"):
        dcp.save(tensors(), checkpoint_id="s3://bucket/there")


class Late(AsyncStager):
    """Copies when it is told."""

    _synchronize_after_execute = False

    def stage(self, state_dict):
        self.copied: Future = Future()
        self.source = state_dict
        return self.copied

    def copy(self):
        self.copied.set_result({key: value.clone() for key, value in self.source.items()})


def test_copies_in_the_background(tmp_path):
    value = torch.zeros(3)
    stager = Late()
    response = dcp.async_save({"a": value}, checkpoint_id=tmp_path / "one", async_stager=stager)
    assert isinstance(response, AsyncSaveResponse)
    value.fill_(1.0)  # the copy isn't made yet
    stager.copy()
    response.upload_completion.result()
    value.fill_(2.0)
    state = {"a": torch.zeros(3)}
    dcp.load(state, checkpoint_id=tmp_path / "one")
    assert torch.equal(state["a"], torch.ones(3))
    for options in (StagingOptions(use_async_staging=False, use_shared_memory=False), StagingOptions()):
        stager = DefaultStager(options)
        first = stager.stage({"a": value, "n": [1, (value,)]})
        first = first.result() if isinstance(first, Future) else first
        value.add_(1.0)
        assert first["a"][0] == first["n"][1][0][0] == value[0] - 1
        second = stager.stage({"a": value, "n": [1, (value,)]})
        second = second.result() if isinstance(second, Future) else second
        assert second["a"].data_ptr() == first["a"].data_ptr()  # the memory is kept
        stager.close()
    with pytest.raises(RuntimeError, match="Unexpected value type"):
        BlockingAsyncStager(type_check=True).stage({"a": object()})


def test_a_process_of_its_own(tmp_path):
    state = {"a": torch.arange(3.0)}
    kind = AsyncCheckpointerType.PROCESS
    future = dcp.async_save(state, checkpoint_id=tmp_path / "one", async_checkpointer_type=kind)
    state["a"].zero_()
    future.result()
    dcp.load(state, checkpoint_id=tmp_path / "one")
    assert state["a"].tolist() == [0, 1, 2]
    (tmp_path / "file").touch()
    with pytest.raises(dcp.CheckpointException, match="NotADirectoryError"):
        dcp.async_save(state, checkpoint_id=tmp_path / "file" / "x", async_checkpointer_type=kind).result()


def test_what_is_under_some_names(tmp_path):
    dcp.save({"model": tensors(), "step": 3}, checkpoint_id=tmp_path)
    assert _load_state_dict_from_keys("step", checkpoint_id=tmp_path) == {"step": 3}
    assert same(_load_state_dict_from_keys({"model.b"}, checkpoint_id=tmp_path)["model"], {"b": tensors()["b"]})
    whole: dict = {}
    format_utils._load_state_dict(
        whole, dcp.FileSystemReader(tmp_path), planner=format_utils._EmptyStateDictLoadPlanner(), no_dist=True
    )
    assert whole.pop("step") == 3
    assert same(whole["model"], tensors())


def test_a_file_of_torch_save_as_a_checkpoint(tmp_path):
    torch.save({"m": tensors()}, tmp_path / "one.pt")
    state = {"m": blank(tensors())}
    reader = format_utils.BroadcastingTorchSaveReader()
    dcp.load(state, storage_reader=reader, planner=format_utils.DynamicMetaLoadPlanner(), checkpoint_id=tmp_path / "one.pt")
    assert same(state["m"], tensors())
    with pytest.raises(dcp.CheckpointException, match="has no tensor q"):
        dcp.load({"q": torch.zeros(1)}, storage_reader=reader, planner=format_utils.DynamicMetaLoadPlanner(),
                 checkpoint_id=tmp_path / "one.pt")  # fmt: skip


def test_older_storages_of_programs(tmp_path):
    class Reader(dcp.FileSystemReader):
        def read_metadata(self):
            return super().read_metadata()

        def set_up_storage_reader(self, metadata, is_coordinator):
            super().set_up_storage_reader(metadata, is_coordinator)

    class Writer(dcp.FileSystemWriter):
        def set_up_storage_writer(self, is_coordinator):
            super().set_up_storage_writer(is_coordinator)

    dcp.save(tensors(), storage_writer=Writer(tmp_path))
    assert same(loaded(Reader(tmp_path), tensors()), tensors())


def test_events_are_logged(tmp_path):
    events = []

    class Keep(logging.Handler):
        def emit(self, record):
            events.append(record.msg)

    handler = Keep()
    _dcp_logger.addHandler(handler)
    try:
        dcp.save(tensors(), checkpoint_id=tmp_path)
        with pytest.raises(dcp.CheckpointException):
            dcp.load({"zz": torch.zeros(1)}, checkpoint_id=tmp_path)
    finally:
        _dcp_logger.removeHandler(handler)
    found = [(each["func_name"], each["event"]) for each in events]
    assert found == [("save", "start"), ("save", "end"), ("load", "start"), ("load", "exception")]
    assert "zz" in events[-1]["error"]
    assert events[0]["checkpoint_id"] == tmp_path


class Harmful:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("harmed"),)


class Own:
    """What a program may trust."""


def test_hostile_data_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dcp.save({"a": Harmful(), "b": torch.zeros(1)}, checkpoint_id=tmp_path / "there")
    (tmp_path / "harmed").unlink(missing_ok=True)
    state = {"a": None, "b": torch.ones(1)}
    with pytest.raises(dcp.CheckpointException, match="Weights only load failed"):
        dcp.load(state, checkpoint_id=tmp_path / "there")
    assert not (tmp_path / "harmed").exists()
    plain = {"n": numpy.float64(3.5), "r": numpy.arange(2), "t": datetime.timedelta(1), "p": pathlib.Path("x")}
    plain["b"] = io.BytesIO(b"y")
    dcp.save(plain, checkpoint_id=tmp_path / "plain")
    dcp.load(found := dict.fromkeys(plain), checkpoint_id=tmp_path / "plain")
    assert found.pop("b").read() == b"y"
    assert found.pop("r").tolist() == [0, 1]
    assert found == {key: plain[key] for key in found}
    dcp.save({"a": Own()}, checkpoint_id=tmp_path / "other")
    with torch.serialization.safe_globals([Own]):
        dcp.load(state := {"a": None}, checkpoint_id=tmp_path / "other")
    assert isinstance(state["a"], Own)


def test_flipped_bits_change_nothing_silently(tmp_path):
    """Each damage is an error, and no thread or file is left that isn't there after a good load."""
    state = {"a": torch.arange(64.0), "n": [1, 2]}
    dcp.save(state, checkpoint_id=tmp_path)
    path = tmp_path / "__0_0.distcp"
    whole = path.read_bytes()
    chooser = random.Random(1)
    threads = threading.active_count()
    for _ in range(120):
        damaged = bytearray(whole)
        damaged[chooser.randrange(len(whole))] ^= 1 << chooser.randrange(8)
        path.write_bytes(damaged)
        found = {"a": torch.zeros(64), "n": None}
        try:
            dcp.load(found, checkpoint_id=tmp_path)
        except dcp.CheckpointException:
            continue
        assert torch.equal(found["a"], state["a"])  # the bit was one that nothing means anything by
        assert found["n"] == [1, 2]
    assert threading.active_count() == threads
