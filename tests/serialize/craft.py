"""Builds checkpoint files by hand, well formed and not, for the tests of torch.load."""

import io
import struct
import zipfile

VALUES = struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)


def archive(content, records=(("data/0", VALUES),), compression=zipfile.ZIP_STORED, version=b"3\n", byteorder=b"little"):
    """A zip file with this pickle; None leaves a record out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in [("data.pkl", content), ("byteorder", byteorder), *records, ("version", version)]:
            if data is not None:
                file.writestr(f"archive/{name}", data)
    return buffer.getvalue()


def pickled(body, protocol=2):
    return b"\x80" + bytes([protocol]) + body + b"."


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def integer(value):
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def group(*items):
    return b"(" + b"".join(items) + b"t"


def storage(key="0", numel=4, kind="FloatStorage", location="cpu", tag="storage"):
    return group(text(tag), name("torch", kind), text(key), text(location), integer(numel)) + b"Q"


def tensor_arguments(offset=0, size=(4,), stride=(1,), **of_storage):
    return group(
        storage(**of_storage), integer(offset), group(*map(integer, size)), group(*map(integer, stride)), b"\x89",
        name("collections", "OrderedDict") + b")R",
    )  # fmt: skip


def tensor(**arguments):
    return name("torch._utils", "_rebuild_tensor_v2") + tensor_arguments(**arguments) + b"R"


def from_type(function, *arguments):
    """A tensor of a subclass that this call is said to make."""
    rebuild = name("torch._tensor", "_rebuild_from_type_v2")
    return rebuild + group(function, name("torch", "Tensor"), group(*arguments), b"}") + b"R"
