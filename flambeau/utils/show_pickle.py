"""torch.utils.show_pickle: what a pickle says, printed, without running any of it.

`python -m torch.utils.show_pickle FILE`; FILE@RECORD looks into an archive, where * stands for the archive's folder.
"""

from __future__ import annotations

import fnmatch
import io
import pickle
import pprint
import sys
import zipfile
from collections.abc import Sequence
from typing import IO, Any

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]


class FakeObject:
    """An object of a pickle: the class by its names, and what it was made of."""

    def __init__(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self.module, self.name, self.args = module, name, args
        self.state: Any = None

    def __repr__(self) -> str:
        state = "" if self.state is None else f"(state={self.state!r})"
        return f"{self.module}.{self.name}{self.args!r}{state}"

    def __setstate__(self, state: Any) -> None:
        self.state = state

    @staticmethod
    def pp_format(printer: Any, obj: FakeObject, stream: IO[str], indent: int, allowance: int, context: Any, level: int) -> None:
        """Print one by a pprint.PrettyPrinter."""
        stream.write(f"{obj.module}.{obj.name}")
        if not obj.args and obj.state is not None:
            stream.write("(state=")
            printer._format(obj.state, stream, indent + 1, allowance + 1, context, level + 1)
            stream.write(")")
            return
        printer._format(obj.args, stream, indent + len(obj.module) + len(obj.name) + 1, allowance, context, level + 1)
        if obj.state is not None:
            stream.write(f"\n{' ' * indent}.__setstate__(\n")
            printer._format(obj.state, stream, indent + 1, allowance + 1, context, level + 1)
            stream.write(")")


class FakeClass:
    """A class or function that a pickle names; a call of it gives a FakeObject."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name
        self.__new__ = self.fake_new  # type: ignore[method-assign, assignment]

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"

    def __call__(self, *args: Any) -> FakeObject:
        return FakeObject(self.module, self.name, args)

    def fake_new(self, *args: Any) -> FakeObject:
        """What stands for an object that the class makes."""
        return FakeObject(self.module, self.name, args[1:])


class DumpUnpickler(pickle._Unpickler):  # type: ignore[misc, name-defined]
    """Reads a pickle into objects that only tell what they are."""

    def __init__(self, file: IO[bytes], *, catch_invalid_utf8: bool = False, **kwargs: Any) -> None:
        super().__init__(file, **kwargs)
        self.catch_invalid_utf8 = catch_invalid_utf8

    def find_class(self, module: str, name: str) -> Any:
        return FakeClass(module, name)

    def persistent_load(self, pid: Any) -> FakeObject:
        return FakeObject("pers", "obj", (pid,))

    dispatch = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def load_binunicode(self) -> None:
        """A text; a broken one stays bytes where that was asked for."""
        size = int.from_bytes(self.read(4), "little")
        content = self.read(size)
        try:
            self.append(str(content, "utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            if not self.catch_invalid_utf8:
                raise
            self.append(FakeObject("builtin", "UnicodeDecodeError", (str(error),)))

    dispatch[pickle.BINUNICODE[0]] = load_binunicode

    @classmethod
    def dump(cls, in_stream: IO[bytes], out_stream: IO[str]) -> Any:
        """Read a pickle, and print what it says."""
        value = cls(in_stream).load()
        pprint.pprint(value, stream=out_stream)
        return value


def main(argv: Sequence[str], output_stream: IO[str] | None = None) -> int | None:
    """Print the pickle that the command's argument names."""
    if len(argv) != 2:
        sys.stderr.write("usage: show_pickle FILE[@RECORD]\n")
        return 2
    file, at, record = argv[1].partition("@")
    if at:
        with zipfile.ZipFile(file) as archive:
            found = [name for name in archive.namelist() if fnmatch.fnmatch(name, record)]
            if not found:
                raise Exception(f"Could not find member matching {record} in {file}")
            content: IO[bytes] = io.BytesIO(archive.read(found[0]))
    else:
        with open(file, "rb") as handle:
            content = io.BytesIO(handle.read())
    printer = pprint.PrettyPrinter(width=100)
    printer._dispatch[FakeObject.__repr__] = FakeObject.pp_format  # type: ignore[attr-defined]
    stream = output_stream or sys.stdout
    value = DumpUnpickler(content, catch_invalid_utf8=True).load()
    printer._stream = stream  # type: ignore[attr-defined]
    printer.pprint(value)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
