"""Files that are damaged or mean harm: every one is an error, in PyTorch's words where it has them, and nothing runs."""

import contextlib
import dataclasses
import io
import pathlib
import pickle
import random
import struct
import tracemalloc
import warnings
import zipfile

import craft
import pytest

import flambeau as torch

FILES = pathlib.Path(__file__).parent / "files"


def load(content, **options):
    return torch.load(io.BytesIO(content), **options)


def test_the_well_formed_file_loads():
    assert load(craft.archive(craft.pickled(craft.tensor()))).tolist() == [1, 2, 3, 4]
    assert load(craft.archive(craft.pickled(craft.tensor()), compression=zipfile.ZIP_DEFLATED)).tolist() == [1, 2, 3, 4]
    assert load(craft.archive(craft.pickled(craft.tensor(size=(1000,), stride=(0,))))).sum() == 1000


GEOMETRY = {
    "offset": ({"offset": 2}, "Trying to resize storage that is not resizable"),
    "negative offset": ({"offset": -1}, "invalid storage offset -1"),
    "stride": ({"stride": (5,)}, "Trying to resize storage that is not resizable"),
    "negative stride": ({"stride": (-1,), "offset": 3}, "Storage size calculation overflowed"),
    "negative size": ({"size": (-4,)}, "numel: integer multiplication overflow"),
    "overflow": ({"size": (2**62, 2**62), "stride": (0, 0)}, "numel: integer multiplication overflow"),
    "far stride": ({"size": (2, 2), "stride": (2**62, 2**62)}, "Storage size calculation overflowed"),
    "ranks": ({"stride": (1, 1)}, "unequal size length"),
    "record too small": ({"numel": 8, "size": (8,)}, r"record size \(16 bytes\) does not match expected size \(32 bytes"),
    "huge storage": ({"numel": 2**40}, "record size"),
    "no record": ({"key": "7"}, "PytorchStreamReader failed locating file data/7: file not found"),
    "path": ({"key": "../data.pkl"}, "PytorchStreamReader failed locating file"),
    "device": ({"location": "cuda:0"}, "Attempting to deserialize object on a CUDA device"),
}


@pytest.mark.parametrize("case", GEOMETRY)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensors_outside_their_storage(case, weights_only):
    arguments, message = GEOMETRY[case]
    with pytest.raises(RuntimeError, match=message):
        load(craft.archive(craft.pickled(craft.tensor(**arguments))), weights_only=weights_only)


SHELL = craft.group(craft.text("echo harm"))
REFUSED = {
    "os.system": (craft.name("os", "system") + SHELL + b"R", "unsupported GLOBAL os.system whose module os is blocked"),
    "stack global": (craft.text("os") + craft.text("system") + b"\x93" + SHELL + b"R", "Unsupported operand 147"),
    "eval": (craft.name("builtins", "eval") + SHELL + b"R", "Unsupported global: GLOBAL eval was not an allowed global"),
    "getattr": (craft.name("__builtin__", "getattr") + SHELL + b"R", "GLOBAL getattr was not an allowed global"),
    "inst": (b"(ios\nsystem\n", "Unsupported operand 105"),
    "text called": (craft.text("a") + SHELL + b"R", "Trying to call reduce for unrecognized function a"),
    "build": (b"}}b", "Can only build Tensor, Parameter, OrderedDict"),
    "append": (b")" + craft.integer(1) + b"a", "Can only append to lists, but got <class 'tuple'>"),
    "set item": (b"]" + craft.integer(1) + craft.integer(2) + b"s", "Can only SETITEM for dict"),
    "bytearray bomb": (craft.name("builtins", "bytearray") + craft.group(craft.integer(2**40)) + b"R", "bytearray"),
    "bytearray of another codec": (
        craft.name("builtins", "bytearray") + craft.group(craft.text("ab"), craft.text("idna")) + b"R",
        "bytearray",
    ),
    "codec inside a subclass": (
        craft.from_type(craft.name("_codecs", "encode"), craft.text("x"), craft.text("rot13")),
        "Trying to call reduce for unrecognized function",
    ),
    "bomb inside a subclass": (
        craft.from_type(craft.name("builtins", "bytearray"), craft.integer(2**40)),
        "Trying to call reduce for unrecognized function <class 'bytearray'>",
    ),
    "class inside a subclass": (craft.from_type(craft.name("torch", "Tensor"), craft.integer(5)), "unrecognized function"),
    "a set of a tensor's rows": (
        craft.name("builtins", "set") + craft.group(craft.tensor(size=(2**40,), stride=(0,))) + b"R",
        "Can only make containers of plain ones",
    ),
    "a tensor's rows as arguments": (
        craft.name("builtins", "set") + craft.tensor(size=(2**40,), stride=(0,)) + b"R",
        "The arguments of a call must be a tuple",
    ),
    "not a storage": (craft.storage(tag="module"), "Only persistent_load of storage is allowed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_weights_only(case, capfd):
    body, message = REFUSED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed") as caught:
            load(craft.archive(craft.pickled(body)))
    assert message in str(caught.value)
    assert "harm" not in capfd.readouterr().out


DEEP = b")" + b"\x85" * 200_000  # a tuple in a tuple, and so on
TWICE = b")q\0" + b"h\0h\0\x86q\0" * 60  # a tuple that has the one before twice: 2**60 values
BOMBS = {"deep": DEEP, "twice": TWICE}
WORD, FLOATS, HERE, CPU = craft.text("storage"), craft.name("torch", "FloatStorage"), craft.text("0"), craft.text("cpu")
PLACES = {
    "key": b"}%bNs", "keys": b"}(%bNK\1Nu", "item of a set": craft.name("builtins", "set") + b"](%be\x85R",
    "set": craft.name("builtins", "set") + b"%b\x85\x85R", "counted": craft.name("collections", "Counter") + b"](%be\x85R",
    "pair": craft.name("collections", "OrderedDict") + b"](%bN\x86e\x85R", "function": b"%b)R", "class": b"%b)\x81",
    "arguments": craft.name("torch", "Size") + b"%bR", "size": craft.name("torch", "Size") + b"%b\x85R",
    "device": craft.name("torch", "device") + b"%b\x85R",
    "storage": craft.group(WORD, FLOATS, b"%b", CPU, b"K\4") + b"Q",
    "location": craft.group(WORD, FLOATS, HERE, b"%b", b"K\4") + b"Q",
    "numel": craft.group(WORD, FLOATS, HERE, CPU, b"%b") + b"Q",
    "word": craft.group(b"%b", FLOATS, HERE, CPU, b"K\4") + b"Q",
    "shape": craft.name("torch._utils", "_rebuild_tensor_v2") + b"(" + craft.storage() + b"K\0%bK\1\x85\x89NtR",
    "layout": craft.name("torch.serialization", "_get_layout") + b"%b\x85R",
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("place", PLACES)
def test_values_that_recursion_must_not_walk(bomb, place):
    content = craft.archive(craft.pickled(PLACES[place].replace(b"%b", BOMBS[bomb])))
    with pytest.raises((pickle.UnpicklingError, RuntimeError, TypeError, AttributeError, ValueError)) as caught:
        load(content)
    assert len(str(caught.value)) < 5000


def test_keys_that_a_dict_finds_in_one_place():
    alike = [craft.integer(index * (2**61 - 1)) for index in range(20_000)]
    body = b"}(" + b"".join(key + b"N" for key in alike) + b"u"
    for content in (body, craft.name("builtins", "set") + b"](" + b"".join(alike) + b"e\x85R"):
        with pytest.raises(pickle.UnpicklingError, match="too many keys of a dict have the same hash"):
            load(craft.archive(craft.pickled(content)))
    far = {2**61 + index: None for index in range(5000)} | {(index, "a"): 1.5 * index for index in range(5000)}
    file = io.BytesIO()
    torch.save([far, dict(far), {1.5: [dict(far)]}], file)
    assert load(file.getvalue()) == [far, far, {1.5: [far]}]


@pytest.mark.parametrize("grad", [b"K\0", b"K\7", b"N", craft.text("x"), b"]"])
def test_a_gradient_is_required_or_not(grad):
    body = craft.tensor().replace(b"\x89", grad, 1)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        load(craft.archive(craft.pickled(body)))
    body = craft.name("torch._utils", "_rebuild_parameter") + craft.group(craft.tensor(), grad, b"N") + b"R"
    with pytest.raises(TypeError, match="argument 'require_grad' \\(position 3\\) must be bool, not"):
        load(craft.archive(craft.pickled(body)))


def edited(signature, offset, replacement, which=0):
    """An archive with bytes replaced (or, for a signature of 0, put) at an offset from the which-th of these signatures."""
    content = craft.archive(craft.pickled(craft.tensor()))
    if signature == 0:
        return content[:400] + replacement + content[400:]
    place = -1
    for _ in range(which + 1):
        place = content.index(signature, place + 1)
    place += offset
    return content[:place] + replacement + content[place + len(replacement) :]


MALFORMED = {
    "underflow": (b"R", IndexError, "pop from empty list"),
    "no mark": (b"]e", IndexError, "pop from empty list"),
    "odd pairs": (b"}(K\x01u", IndexError, "list index out of range"),
    "memo": (b"h\x05", KeyError, "5"),
    "unhashable": (b"}}Ns", TypeError, "unhashable type: 'dict'"),
    "text": (b"X\x01\0\0\0\xff", UnicodeDecodeError, "invalid start byte"),
    "ends in a number": (b"J\x05", struct.error, "unpack requires a buffer of 4 bytes"),
    "ends in a text": (b"X\xff\xff\xff\x7fabc", EOFError, ""),
    "persistent id": (craft.integer(3) + b"Q", AssertionError, "saved_id must be a tuple, got int"),
    "parts of a storage": (craft.group(craft.text("storage"), craft.text("0")) + b"Q", ValueError, "not enough values to unpack"),
    "negative storage": (craft.storage(numel=-4), TypeError, "can't have -4 elements"),
    "arguments": (craft.name("collections", "OrderedDict") + b"K\x01R", TypeError, "must be an iterable, not int"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_pickles_raise_what_pytorch_raises_and_say_so(case):
    body, kind, message = MALFORMED[case]
    with pytest.raises(kind) as caught:
        load(craft.archive(craft.pickled(body)))
    assert message in str(caught.value)
    assert any("The file is damaged or is no checkpoint" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("encoding", [None, "latin1", "bytes"])
def test_texts_of_python_2(encoding):
    options = {} if encoding is None else {"encoding": encoding}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load(craft.archive(craft.pickled(b"U\x01a")), **options)
    assert found == (b"a" if encoding == "bytes" else "a")


DAMAGED = {
    "no pickle": (craft.archive(None), "failed locating file data.pkl: file not found"),
    "no version": (craft.archive(craft.pickled(b"N"), version=None), "Expected hasRecord"),
    "version": (craft.archive(craft.pickled(b"N"), version=b"99\n"), "maximum supported version for reading is 10"),
    "half": (craft.archive(craft.pickled(craft.tensor()))[:200], "failed finding central directory"),
    "last byte": (craft.archive(craft.pickled(craft.tensor()))[:-1], "failed finding central directory"),
    "a byte more": (edited(0, 0, b"?"), "reading zip archive: invalid header or archive is corrupted"),
    "size of a record": (edited(b"PK\1\2", 24, b"\1"), "reading zip archive: invalid header or archive is corrupted"),
    "another disk": (edited(b"PK\1\2", 34, b"\2"), "unsupported multidisk archive"),
    "method": (edited(b"PK\1\2", 10, b"\1"), "retrieving file meta-data for data.pkl: unsupported method"),
    "encrypted": (edited(b"PK\1\2", 8, b"\1"), "retrieving file meta-data for data.pkl: unsupported encryption"),
    "local header": (edited(b"PK\3\4", 2, b"?", 1), "reading file byteorder: invalid header or archive is corrupted"),
    "folder": (edited(b"archive/byteorder", 0, b"?", 1), "file in archive is not in a subdirectory archive/: ?rchive"),
    "head": (craft.archive(craft.pickled(craft.tensor()))[:20], "not a ZIP archive"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_archives(case):
    content, message = DAMAGED[case]
    with pytest.raises(RuntimeError) as caught:
        load(content)
    assert message in str(caught.value)


def test_a_compressed_bomb_is_refused():
    bomb = craft.archive(craft.pickled(b"N"), compression=zipfile.ZIP_DEFLATED)
    # The directory claims two gigabytes for the pickle.
    place = bomb.index(b"PK\1\2") + 24
    with pytest.raises(RuntimeError, match="compressed records claim"):
        load(bomb[:place] + (2**31).to_bytes(4, "little") + bomb[place + 4 :])


@pytest.mark.parametrize("name", ["data.pkl", "version", "byteorder", "data/0"])
@pytest.mark.parametrize("method", [0, 8])
def test_sizes_that_the_file_cannot_have_take_no_memory(name, method):
    content = craft.archive(craft.pickled(craft.tensor()))
    place = content.index(b"archive/" + name.encode(), content.index(b"PK\1\2")) - 46
    for stored, size in [(None, 2**30), (2**31, 2**31), (1000, 2**30), (None, 2**32 - 2)]:
        fields = list(struct.unpack_from("<4s6H3I5H2I", content, place))
        fields[4], fields[9] = method, size
        fields[8] = fields[8] if stored is None else stored
        damaged = content[:place] + struct.pack("<4s6H3I5H2I", *fields) + content[place + 46 :]
        tracemalloc.start()
        with pytest.raises(RuntimeError, match=r"PytorchStreamReader failed|refusing a file|does not match expected size"):
            load(damaged)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20


def test_a_compressed_pickle_is_read_as_far_as_it_is_right():
    content = craft.archive(b"\x80\2" + b"N0" * (8 << 20), compression=zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(pickle.UnpicklingError, match="Unsupported operand 48"):
        load(content)
    with pytest.raises(RuntimeError, match="maximum supported version for reading is 10"):
        load(craft.archive(b"", compression=zipfile.ZIP_DEFLATED, version=b"3" * (8 << 20)))
    assert tracemalloc.get_traced_memory()[1] < 40 << 20  # what the test itself makes
    tracemalloc.stop()


def test_legacy_files_that_end_early():
    content = (FILES / "legacy_pytorch_2_13.pt").read_bytes()
    with pytest.raises(RuntimeError, match=r"unexpected EOF, expected 5 more bytes\. The file might be corrupted"):
        load(content[:-5])
    with pytest.raises(EOFError):
        load(content[:60])
    with pytest.raises(EOFError):
        load(b"")


def test_a_file_cant_reach_the_fields_of_a_tensor():
    state = b"}" + craft.text("_offset") + craft.integer(10**9) + b"s"
    body = craft.name("torch._tensor", "_rebuild_from_type_v2") + craft.group(
        craft.name("torch._utils", "_rebuild_tensor_v2"), craft.name("torch", "Tensor"), craft.tensor_arguments(), state
    ) + b"R"  # fmt: skip
    assert load(craft.archive(craft.pickled(body))).tolist() == [1, 2, 3, 4]


def test_allowing_a_class():
    buffer = io.BytesIO()
    torch.save({"path": pathlib.PurePosixPath("a/b")}, buffer)
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[pathlib\S*\.PurePosixPath\]\)"):
        load(buffer.getvalue())
    with torch.serialization.safe_globals([pathlib.PurePosixPath]):
        assert load(buffer.getvalue()) == {"path": pathlib.PurePosixPath("a/b")}
        assert pathlib.PurePosixPath in torch.serialization.get_safe_globals()
    assert pathlib.PurePosixPath not in torch.serialization.get_safe_globals()


@dataclasses.dataclass(frozen=True)
class Rows:
    dim: int = -1


def test_an_allowed_class_may_be_frozen():
    buffer = io.BytesIO()
    torch.save(Rows(2), buffer)
    with torch.serialization.safe_globals([Rows]):
        assert load(buffer.getvalue()) == Rows(2)


#: What reading a damaged file ends in, as in PyTorch: the errors of Python's own reading of texts, numbers and lists too.
RAISED = (
    pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
    struct.error,
)  # fmt: skip


@pytest.mark.parametrize("file", ["pytorch_2_13.pt", "legacy_pytorch_2_13.pt"])
def test_random_damage_never_does_more_than_raise(file):
    content = (FILES / file).read_bytes()
    source = random.Random(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(300):
            damaged = bytearray(content)
            for _ in range(source.choice([1, 2, 5])):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
            with contextlib.suppress(*RAISED):
                load(bytes(damaged))


@pytest.mark.parametrize("name", ["data.pkl", "data/0", "version"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_two_records_of_one_name(name: str, weights_only: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's
        content = craft.archive(craft.pickled(craft.tensor()), records=[("data/0", craft.VALUES), (name, b"3\n")])
    with pytest.raises(RuntimeError, match=f"two records have the name archive/{name}"):
        load(content, weights_only=weights_only)


def sparse(layout: str, *parts: bytes) -> bytes:
    layout = craft.name("torch.serialization", "_get_layout") + craft.group(craft.text(f"torch.{layout}")) + b"R"
    return craft.name("torch._utils", "_rebuild_sparse_tensor") + craft.group(layout, craft.group(*parts)) + b"R"


INDICES = craft.tensor(key="1", kind="LongStorage", size=(1, 4), stride=(4, 1))
ORDER = craft.tensor(key="1", kind="LongStorage")
ODD_SPARSE = {
    "whole": (sparse("sparse_coo", INDICES, craft.tensor(), craft.group(craft.integer(4)), b"\x88"), None),
    "negative": (sparse("sparse_coo", INDICES, craft.tensor(), craft.group(craft.integer(-1)), b"\x88"), RuntimeError),
    "negative rows": (
        sparse("sparse_csr", ORDER, ORDER, craft.tensor(), craft.group(craft.integer(-1), craft.integer(4))), RuntimeError,
    ),
    "too many": (sparse("sparse_csc", ORDER, ORDER, craft.tensor(), craft.group(*[craft.integer(2**40)] * 2)), RuntimeError),
    "order": (sparse("sparse_coo", INDICES, craft.tensor(), craft.group(craft.integer(4)), INDICES), TypeError),
}  # fmt: skip
ODD_PARAMETERS = {
    "grad": (craft.tensor() + craft.integer(1) + b"}}", TypeError),
    "attributes": (craft.tensor() + b"\x88}" + craft.group(b"N", b"N", b"N"), RuntimeError),
    "no names": (craft.tensor() + b"\x88}" + b"}" + craft.integer(1) + b"Ns", TypeError),
}


@pytest.mark.parametrize("case", ODD_SPARSE)
def test_sparse_tensors_that_cannot_be(case: str) -> None:
    body, error = ODD_SPARSE[case]
    content = craft.archive(craft.pickled(body), records=[("data/0", craft.VALUES), ("data/1", struct.pack("<4q", 0, 1, 2, 3))])
    with pytest.raises(error) if error else contextlib.nullcontext():
        assert load(content).to_dense().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("case", ODD_PARAMETERS)
def test_parameters_that_cannot_be(case: str) -> None:
    arguments, error = ODD_PARAMETERS[case]
    call = craft.name("torch._utils", "_rebuild_parameter_with_state") + craft.group(arguments) + b"R"
    with pytest.raises(error, match=r"require_grad|Invalid serialized state|under their names"):
        load(craft.archive(craft.pickled(call)))
