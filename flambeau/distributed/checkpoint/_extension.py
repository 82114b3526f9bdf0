"""torch.distributed.checkpoint._extension: what transforms the bytes of a checkpoint's entries, as compression does.

An entry's place in the metadata has the descriptors of what it went through, by which it is read. Used by `filesystem`.
"""

from __future__ import annotations

import abc
import contextlib
import importlib.util
import io
from collections.abc import Iterator, Sequence
from typing import IO, Any

__all__ = ["Extension", "ExtensionRegistry", "StreamTransformExtension", "ZStandard"]


class Extension(abc.ABC):
    """Something that checkpoints name by a descriptor: a registered name, and after a slash what the version needs."""

    @staticmethod
    @abc.abstractmethod
    def registry_name() -> str:
        """The name."""

    @staticmethod
    @abc.abstractmethod
    def from_descriptor(version: str) -> Extension:
        """The extension of a descriptor, of which this is what follows the slash."""

    @abc.abstractmethod
    def get_descriptor(self) -> str:
        """The descriptor."""


class StreamTransformExtension(Extension):
    """Transforms a stream of bytes."""

    @abc.abstractmethod
    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        """A stream that writes what it is given, transformed, to `output`, which it doesn't close."""

    @abc.abstractmethod
    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        """A stream that reads what was transformed."""


class ZStandard(StreamTransformExtension):
    """Compression by the package zstandard. ValueError where it isn't installed."""

    def __init__(self) -> None:
        if not self.is_available():
            raise ValueError("ZStandard extension is unavailable because no module named 'zstandard'; install it")

    @staticmethod
    def is_available() -> bool:
        """Whether zstandard is installed."""
        return importlib.util.find_spec("zstandard") is not None

    @staticmethod
    def registry_name() -> str:
        return "stream.zstd"

    @staticmethod
    def from_descriptor(version: str) -> ZStandard:
        if version.partition(".")[0] != "1":
            raise ValueError(f"Unknown extension version={version!r}")
        return ZStandard()

    def get_descriptor(self) -> str:
        return f"{self.registry_name()}/1"

    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        zstandard = importlib.import_module("zstandard")
        stream: IO[bytes] = zstandard.ZstdCompressor().stream_writer(output, closefd=False)
        return stream

    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        zstandard = importlib.import_module("zstandard")
        stream: IO[bytes] = zstandard.ZstdDecompressor().stream_reader(input)
        return stream


class ExtensionRegistry:
    """The extensions that readers know, by name; StreamTransformExtensions of programs are registered with it."""

    def __init__(self) -> None:
        self.extensions: dict[str, type[Extension]] = {ZStandard.registry_name(): ZStandard}

    def register(self, cls: type[Extension]) -> None:
        """Adds an extension by its name."""
        self.extensions[cls.registry_name()] = cls

    def from_descriptor_list(self, descriptors: Sequence[str]) -> Sequence[Extension]:
        """The extensions of descriptors. ValueError for one that isn't known."""
        result = []
        for descriptor in descriptors:
            name, _, version = descriptor.partition("/")
            if name not in self.extensions:
                raise ValueError(f"Unknown extension {name=}")
            result.append(self.extensions[name].from_descriptor(version))
        return result


@contextlib.contextmanager
def outward(extensions: Sequence[StreamTransformExtension], file: IO[bytes]) -> Iterator[Any]:
    """A block whose stream writes into a file through extensions, the first of which is next to the file."""
    opened: list[Any] = [file]
    for extension in extensions:
        opened.append(extension.transform_to(opened[-1]))
    try:
        yield opened[-1]
    finally:
        for stream in reversed(opened[1:]):
            stream.close()


def inward(registry: ExtensionRegistry, descriptors: Sequence[str], content: io.BytesIO) -> io.BytesIO:
    """The bytes that went through extensions. ValueError for one that isn't known."""
    if not descriptors:
        return content
    stream: IO[bytes] = content
    for extension in registry.from_descriptor_list(descriptors):
        if not isinstance(extension, StreamTransformExtension):
            raise ValueError(f"{extension.get_descriptor()} is no transformation of a stream")
        stream = extension.transform_from(stream)
    return io.BytesIO(stream.read())
