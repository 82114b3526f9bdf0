"""Files go both ways: what PyTorch 2.13 wrote is read, what is written comes back, and nothing is lost on the way."""

import collections
import copy
import gc
import io
import os
import pathlib
import pickle
import zipfile
from collections import OrderedDict

import pytest

import flambeau as torch

FILES = pathlib.Path(__file__).parent / "files"
BOTH = ["pytorch_2_13.pt", "legacy_pytorch_2_13.pt"]


def through(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return torch.load(buffer)


def check_sample(sample):
    """What was in the files that PyTorch wrote."""
    assert sample["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert sample["b"].tolist() == [[0, 3], [1, 4], [2, 5]] and sample["b"].stride() == (1, 3)
    assert sample["c"].tolist() == [[3, 4, 5]] and sample["c"].storage_offset() == 3
    assert isinstance(sample["p"], torch.nn.Parameter) and sample["p"].requires_grad
    assert sample["h"].dtype is torch.bfloat16 and sample["h"].tolist() == [1.5, -2.0]
    assert sample["size"] == torch.Size([1, 2]) and isinstance(sample["size"], torch.Size)
    assert sample["dtype"] is torch.float32 and sample["device"] == torch.device("cpu")
    assert sample["od"] == OrderedDict(a=1, b=[1, (2, 3)]) and sample["set"] == {1}
    assert sample["empty"].shape == (0, 3) and sample["ex"].stride() == (0, 0)
    assert [part.tolist() for part in sample["ints"]] == [[0, 1, 2, 3, 4], 7, [True, False]]
    assert sample["text"] == "é" and sample["none"] is None and sample["big"] == 10**30
    assert sample["rg"].requires_grad and sample["rg"].is_leaf
    # One memory under three tensors.
    sample["a"][1, 0] = 30.0
    assert sample["b"][0, 1] == 30.0 and sample["c"][0, 0] == 30.0


@pytest.mark.parametrize("file", BOTH)
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_pytorch_are_read(file, weights_only):
    check_sample(torch.load(FILES / file, weights_only=weights_only))


def test_a_file_is_mapped():
    sample = torch.load(FILES / "pytorch_2_13.pt", mmap=True)
    check_sample(sample)
    assert torch.load(FILES / "pytorch_2_13.pt")["a"][1, 0] == 3.0  # writes stay in memory


def test_types_without_an_old_storage_name_and_meta_tensors():
    sample = torch.load(FILES / "pytorch_2_13.pt")
    assert sample["u16"].dtype is torch.uint16 and sample["u16"].tolist() == [1, 65535]
    assert sample["meta"].device.type == "meta" and sample["meta"].shape == (2,)


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_round_trip(options):
    sample = torch.load(FILES / "legacy_pytorch_2_13.pt")
    check_sample(through(sample, **options))


def test_the_container_is_pytorchs():
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(3), "p": torch.nn.Parameter(torch.ones(2))}, buffer)
    archive = zipfile.ZipFile(buffer)
    assert archive.testzip() is None
    assert archive.namelist() == [
        "archive/data.pkl", "archive/.format_version", "archive/.storage_alignment", "archive/byteorder", "archive/data/0",
        "archive/data/1", "archive/version", "archive/.data/serialization_id",
    ]  # fmt: skip
    assert archive.read("archive/version") == b"3\n" and archive.read("archive/.storage_alignment") == b"64"
    assert buffer.getvalue().index(archive.read("archive/data/0")) % 64 == 0
    content = archive.read("archive/data.pkl")
    assert b"ctorch._utils\n_rebuild_tensor_v2\n" in content and b"ctorch\nFloatStorage\n" in content
    assert b"ctorch._utils\n_rebuild_parameter\n" in content and b"flambeau" not in content


def test_map_location():
    file = FILES / "pytorch_2_13.pt"
    assert torch.load(file, map_location="meta")["a"].device.type == "meta"
    assert torch.load(file, map_location=torch.device("cpu"))["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    seen = []
    torch.load(file, map_location=lambda storage, location: seen.append(location))
    assert set(seen) == {"cpu"}
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(file, map_location="cuda")
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        torch.load(file, map_location="elsewhere")


def test_one_memory_as_two_types_is_refused():
    tensor = torch.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        torch.save([tensor, tensor.view(torch.int32)], io.BytesIO())


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"epoch": 1}, path)
    os.chmod(path, 0o640)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save({"epoch": 2, "bad": lambda: None}, path)
    assert torch.load(path) == {"epoch": 1}
    torch.save({"epoch": 3}, path)
    assert torch.load(path) == {"epoch": 3}
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["model.pt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "latest.pt").symlink_to("epoch1.pt")
    torch.save(1, tmp_path / "latest.pt")
    assert (tmp_path / "latest.pt").is_symlink() and torch.load(tmp_path / "epoch1.pt") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        torch.save(torch.ones(100_000), "/dev/full")


def test_arguments():
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        torch.save(1, "/nowhere/at/all.pt")
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match=r"You can only torch.load from a file that is seekable"):
        torch.load(3)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(io.BytesIO(), mmap=True)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module"):
        torch.load(io.BytesIO(), pickle_module=pickle, weights_only=True)


def test_pickle_and_deepcopy_keep_strides_and_sharing():
    base = torch.arange(6.0).reshape(2, 3)
    for copied in (pickle.loads(pickle.dumps([base, base.t()])), copy.deepcopy([base, base.t()])):
        assert copied[1].stride() == (1, 3)
        copied[0][0, 1] = 7.0
        assert copied[1][1, 0] == 7.0 and base[0, 1] == 1.0


def test_deepcopy_is_for_leaves():
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(torch.ones(2, requires_grad=True) * 2)


def test_attributes_of_a_tensor_are_kept():
    tensor = torch.ones(2)
    tensor.note = "kept"
    assert through(tensor).note == "kept"


def test_what_a_file_names_that_is_not_safe(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file.pt"
    torch.save({"a": torch.ones(2), "b": collections.deque(), "c": torch.nn.Linear(1, 1)}, path)
    linear = f"{torch.nn.Linear.__module__.replace('flambeau', 'torch')}.Linear"
    assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == ["collections.deque", linear]
    with torch.serialization.safe_globals([torch.nn.Linear]):
        assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == ["collections.deque"]
    torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"a checkpoint returned by torch\.save"):
        torch.serialization.get_unsafe_globals_in_checkpoint(path)


class Plain:
    """A file that can only be read, searched and asked for its place, as some libraries give them."""

    def __init__(self, content: bytes, into: bool = False):
        self.file = io.BytesIO(content)
        self.read, self.readline, self.tell = self.file.read, self.file.readline, self.file.tell
        if into:
            self.readinto = self.file.readinto

    def seek(self, place: int, whence: int = 0) -> None:
        self.file.seek(place, whence)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("into", [True, False])
def test_a_file_may_begin_elsewhere_and_know_little(zipped: bool, into: bool) -> None:
    buffer = io.BytesIO()
    pickle.dump("a header", buffer)
    saved = {"x": torch.arange(1000.0), "y": torch.ones(3, dtype=torch.bfloat16)}
    torch.save(saved, buffer, _use_new_zipfile_serialization=zipped)
    file = Plain(buffer.getvalue(), into)
    assert pickle.load(file) == "a header"
    loaded = torch.load(file)
    assert torch.equal(loaded["x"], saved["x"]) and torch.equal(loaded["y"], saved["y"])


class OnlyRead(Plain):
    """A file without readline, which reading an archive doesn't need."""

    def __init__(self, content: bytes):
        super().__init__(content)
        del self.readline


def test_an_archive_is_read_without_readline() -> None:
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(3)}, buffer)
    assert torch.load(OnlyRead(buffer.getvalue()))["x"].sum() == 3
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(3)}, buffer, _use_new_zipfile_serialization=False)
    with pytest.raises(AttributeError, match="readline"):
        torch.load(OnlyRead(buffer.getvalue()))


def test_a_file_that_refuses_its_place_says_so_itself() -> None:
    file = Plain(b"")
    file.tell = lambda: (_ for _ in ()).throw(NotImplementedError("not yet"))
    with pytest.raises(NotImplementedError, match=r"^not yet$"):
        torch.load(file)


def test_records_one_by_one(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.pt")
    with torch.serialization._open_zipfile_writer(path) as writer:
        writer.write_record("a", b"12345", 3)
        writer.write_record("c/d", "text", 4)
        assert writer.get_all_written_records() == {"a", "c/d"} and writer.archive_name() == "a"
    with torch.serialization._open_zipfile_reader(path) as reader:
        assert reader.get_record("a") == b"123" and reader.get_record("c/d") == b"text" and not reader.has_record("b")
        assert reader.serialization_id() == writer.serialization_id() and reader.get_record("version") == b"3\n"
        with pytest.raises(RuntimeError, match="locating file b: file not found"):
            reader.get_record("b")
    with open(path, "rb") as file:
        assert torch.serialization._is_zipfile(file)
        file.seek(5)
        assert not torch.serialization._is_zipfile(file)


def test_a_file_without_its_data_is_filled_in_later(tmp_path: pathlib.Path) -> None:
    path, x = tmp_path / "a.pt", torch.arange(4.0)
    with torch.serialization.skip_data():
        torch.save({"x": x, "view": x[1:]}, path)
        with pytest.raises(RuntimeError, match=r"Please call torch\.load outside the skip_data context manager"):
            torch.load(path)
    assert torch.load(path)["x"].tolist() == [0, 0, 0, 0]
    with torch.serialization._open_zipfile_reader(str(path)) as reader:
        place = reader.get_record_offset("data/0")
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes(x.untyped_storage()))
    loaded = torch.load(path)
    assert loaded["x"].tolist() == [0, 1, 2, 3] and loaded["view"].data_ptr() == loaded["x"].data_ptr() + 4


def test_switches_of_weights_only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(torch.nn.Linear(1, 1), tmp_path / "a")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert isinstance(torch.load(tmp_path / "a"), torch.nn.Linear)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(tmp_path / "a", weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD`"):
        torch.load(tmp_path / "a")


class WithState(torch.Tensor):
    """What is written of it is its own affair."""

    def __getstate__(self):
        return "mark", self.__dict__

    def __setstate__(self, state):
        mark, attributes = state
        self.__dict__.update(attributes, restored=mark)


class OfWithState(WithState):
    pass


class WithLess(torch.Tensor):
    def __getstate__(self):
        return {"kept": self.kept}


def trusted(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def test_classes_say_what_is_written_of_them():
    for cls in (WithState, OfWithState):
        tensor = torch.arange(3.0).as_subclass(cls)
        tensor.note = [1, 2]
        for read in (trusted(tensor), pickle.loads(pickle.dumps(tensor))):
            assert type(read) is cls and read.__dict__ == {"note": [1, 2], "restored": "mark"} and read.tolist() == [0, 1, 2]
    tensor = torch.ones(2).as_subclass(WithLess)
    tensor.kept, tensor.dropped = 1, 2
    assert trusted(tensor).__dict__ == {"kept": 1}


def test_fake_tensors_are_written_as_real_ones_without_their_bytes() -> None:
    with torch._subclasses.FakeTensorMode():
        fake = torch.zeros(2, 3)
        given = {"whole": fake, "row": fake[1]}
    file = io.BytesIO()
    with torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save(given, file)
    file.seek(0)
    read = torch.load(file)
    whole, row = read["whole"], read["row"]
    assert type(whole) is torch.Tensor and (whole.shape, row.shape, row.storage_offset()) == ((2, 3), (3,), 3)
    assert row.untyped_storage() is whole.untyped_storage()
    with torch.serialization.skip_data(), pytest.raises(RuntimeError):
        torch.save(given, io.BytesIO())


def test_tensors_that_require_grad_are_read_without_a_search_for_views(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which looks through all objects of the program, for each of them."""
    w = torch.arange(6.0).view(2, 3)
    torch.save([w[0].requires_grad_(), w[1], w.double().requires_grad_()], tmp_path / "leaves.pt")

    def searched(*objects: object) -> list[object]:
        raise AssertionError("all objects are looked through")

    monkeypatch.setattr(gc, "get_referrers", searched)
    first, second, third = torch.load(tmp_path / "leaves.pt")
    assert first.requires_grad and first.is_leaf and not second.requires_grad and third.requires_grad
    (first.sum() + third.sum() * 2).backward()
    assert first.grad.tolist() == [1, 1, 1] and third.grad.tolist() == [[2, 2, 2]] * 2
