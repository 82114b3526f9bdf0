"""The unpickler behind weights_only=True: reads tensors and plain containers, and never runs anything a file brings.

An interpreter for the few pickle instructions that checkpoints need. Names are looked up in a fixed list (allowed.py),
nothing is imported on a file's word; calls go only to functions of that list, new objects are made only of its classes.
What a file isn't allowed to do ends in an UnpicklingError; a file that is no whole pickle ends in the exception in which
PyTorch's reader ends there (of a list that is empty, a text that is none). Used by torch.load.
"""

from __future__ import annotations

import codecs
import struct
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from flambeau.base import dtype as dtypes
from flambeau.core.tensor.rebuild import rebuild_from_type_v2
from flambeau.core.tensor.storage_types import StorageType
from flambeau.core.tensor.tensor import Tensor
from flambeau.serialize import allowed, names
from flambeau.serialize.keys import Keys, shown

#: Longest text or byte string that is read in one piece before the file must show that it has it.
PIECE = 1 << 20
#: Classes whose objects a file may make by calling them, or without arguments through NEWOBJ.
CONTAINERS = (OrderedDict, Counter, set)


class Refused(UnpicklingError):
    """What the file wants isn't allowed; kind is "global" (a program may allow it), "blocked" or "unsupported"."""

    def __init__(self, message: str, kind: str = "unsupported"):
        super().__init__(message)
        self.kind = kind


class SafeUnpickler:
    """Reads one pickle from a binary file. persistent_load gets the persistent ids (storages) of the file."""

    def __init__(self, file: IO[bytes], persistent_load: Callable[[Any], Any], encoding: str):
        self.file, self.persistent_load, self.encoding = file, persistent_load, encoding
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # the stacks below each open mark
        self.memo: dict[int, Any] = {}
        self.keys = Keys()
        self.named: dict[int, Any] = {}  # by id, kept alive by the value

    # ---- reading

    def read(self, size: int) -> bytes:
        """The next `size` bytes, or what is left of the file; a false size costs no memory."""
        if size <= PIECE:
            return self.file.read(size)
        pieces = []
        while size > 0 and (piece := self.file.read(min(size, PIECE))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def byte(self) -> int:
        """One byte as a number. Raises IndexError at the end of the file."""
        return self.file.read(1)[0]

    def number(self, form: str) -> Any:
        """One number in a struct format. Raises struct.error at the end of the file."""
        return struct.unpack(form, self.file.read(struct.calcsize(form)))[0]

    def line(self) -> str:
        """The text up to the end of the line."""
        return self.file.readline(PIECE)[:-1].decode()

    def load(self) -> Any:
        """The object in the file.

        Raises UnpicklingError for anything that isn't allowed, EOFError at the end of the file, and for a damaged one what
        its instructions raise, with a note that says where.
        """
        instructions, code = self.INSTRUCTIONS, b""
        try:
            while True:
                code = self.file.read(1)
                if not code:
                    raise EOFError
                if code == b".":
                    return self.stack.pop()
                instruction = instructions.get(code)
                if instruction is None:
                    raise Refused(f"Unsupported operand {code[0]}")
                instruction(self)
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError, EOFError, struct.error) as error:
            where = f" (instruction {code!r} before byte {self.file.tell()})" if code else ""
            error.add_note(f"The file is damaged or is no checkpoint: its pickle can't be read{where}.")
            raise

    # ---- the stack

    def mark(self) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def pop_group(self) -> list[Any]:
        """The items above the last mark."""
        items, self.stack = self.stack, self.outer.pop()
        return items

    def group(self) -> None:
        items = tuple(self.pop_group())
        self.stack.append(items)

    def pop_tuple(self, count: int) -> tuple[Any, ...]:
        """The last `count` items."""
        return tuple([self.stack.pop() for _ in range(count)][::-1])

    # ---- instructions: names, calls, objects

    def protocol(self) -> None:
        version = self.byte()
        if version != 2:
            warnings.warn(
                f"Detected pickle protocol {version} in the checkpoint, which was not the default pickle protocol used by "
                "`torch.load` (2). The weights_only Unpickler might not support all instructions implemented by this "
                "protocol, please file an issue for adding support if you encounter this.",
                stacklevel=6,
            )

    def global_(self) -> None:
        module, name = names.modern(self.line(), self.line())
        full_name = f"{module}.{name}"
        if module.partition(".")[0] in allowed.BLOCKED_MODULES:
            raise Refused(f"Trying to load unsupported GLOBAL {full_name} whose module {module} is blocked.", "blocked")
        try:
            found = allowed.lookup(full_name)
        except KeyError:
            shown = name if module == "builtins" else full_name
            raise Refused(
                f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{shown}])` or the `torch.serialization.safe_globals([{shown}])` "
                "context manager to allowlist this global if you trust this class/function.",
                "global",
            ) from None
        self.named[id(found)] = found
        self.stack.append(found)

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if id(function) not in self.named or isinstance(function, StorageType | dtypes.dtype):
            raise Refused(f"Trying to call reduce for unrecognized function {shown(function)}")
        if function is Tensor:
            raise Refused(f"Trying to call reduce for unrecognized function {function}")
        if type(arguments) is not tuple and hasattr(type(arguments), "__iter__"):  # a tensor of a billion elements has it
            raise Refused(f"The arguments of a call must be a tuple, but got {type(arguments)}")
        self.stack.append(self.call(function, *arguments))

    def call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of the list; those that aren't ours are kept from being used as a memory bomb."""
        if function is codecs.encode:
            if not (len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] == "latin1"):
                raise Refused("_codecs.encode is allowed for text in latin1 only")
        elif function is bytearray:
            self.check_bytes(*arguments)
        elif function in CONTAINERS:
            self.check_items(arguments)
        elif function is rebuild_from_type_v2:
            self.check_from_type(arguments)
        return function(*arguments)

    @staticmethod
    def check_bytes(content: Any = b"", encoding: Any = "latin-1", *others: Any) -> None:
        """The arguments of bytearray: bytes, or what Python 2 writes in their place."""
        if others or not isinstance(content, bytes | str) or encoding not in ("latin-1", "latin1", "utf-8", "ascii"):
            raise Refused("bytearray is allowed for bytes only")

    @staticmethod
    def check_items(arguments: tuple[Any, ...]) -> None:
        """The arguments of a container: plain ones, of which it makes keys."""
        for argument in arguments:
            if not isinstance(argument, tuple | list | dict | set | str | bytes) and hasattr(type(argument), "__iter__"):
                raise Refused(f"Can only make containers of plain ones, but got {type(argument)}")
            if isinstance(argument, tuple | list):
                Keys().check(argument)
                Keys().check(item[0] for item in argument if isinstance(item, tuple | list) and item)

    def check_from_type(self, arguments: tuple[Any, ...]) -> None:
        """The nested call of _rebuild_from_type_v2 must be to what rebuilds a tensor, or to what a program allows."""
        if len(arguments) != 4 or type(arguments[2]) is not tuple:
            raise TypeError("_rebuild_from_type_v2 takes a function, a class, a tuple and a state")
        function, cls, inner, _ = arguments
        if id(function) not in self.named or not (allowed.makes_tensors(function) or allowed.is_allowed(function)):
            raise Refused(f"Trying to call reduce for unrecognized function {shown(function)}")
        if id(cls) not in self.named:
            raise Refused(f"Trying to call reduce for unrecognized function {shown(cls)}")
        if function is rebuild_from_type_v2:
            self.check_from_type(inner)

    def new_object(self) -> None:
        arguments, cls = self.stack.pop(), self.stack.pop()
        if not (isinstance(cls, type) and (cls in CONTAINERS or allowed.is_allowed(cls))):
            raise Refused(f"Trying to create new object for unrecognized class {shown(cls)}")
        self.stack.append(cls.__new__(cls, *arguments))

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        kind = type(target)
        if kind is OrderedDict and isinstance(state, dict):
            target.__dict__.update(state)
        elif allowed.is_allowed(kind):
            self.set_state(target, state)
        elif isinstance(target, Tensor):
            raise Refused("this file was written by a very old PyTorch; load and save it again with PyTorch 1.0 or newer")
        else:
            raise Refused(
                f"Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got {kind}"
            )

    @staticmethod
    def set_state(target: Any, state: Any) -> None:
        """Give an object of an added class its state."""
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if attributes:  # as pickle does: a class may refuse that its attributes are set
            target.__dict__.update(attributes)
        for name, value in (slots or {}).items():
            setattr(target, name, value)

    def persistent(self) -> None:
        identity = self.stack.pop()
        if type(identity) is tuple and identity[0] not in ("storage", b"storage"):
            raise Refused(f"Only persistent_load of storage is allowed, but got {type(identity[0])}")
        self.stack.append(self.persistent_load(identity))

    # ---- instructions: containers

    def append(self) -> None:
        item, target = self.stack.pop(), self.stack[-1]
        if type(target) is not list:
            raise Refused(f"Can only append to lists, but got {type(target)}")
        target.append(item)

    def appends(self) -> None:
        items, target = self.pop_group(), self.stack[-1]
        if type(target) is not list:
            raise Refused(f"Can only extend lists, but got {type(target)}")
        target.extend(items)

    def put(self, target: Any, items: list[Any], instruction: str) -> None:
        """Set pairs in a dict."""
        if type(target) not in (dict, OrderedDict, Counter):
            raise Refused(
                f"Can only {instruction} for dict, collections.OrderedDict, collections.Counter, but got {type(target)}"
            )
        self.keys.check(items[::2], target)
        for place in range(0, len(items), 2):
            target[items[place]] = items[place + 1]

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.put(self.stack[-1], [key, value], "SETITEM")

    def set_items(self) -> None:
        items = self.pop_group()
        self.put(self.stack[-1], items, "SETITEMS")

    # ---- instructions: values

    def short_string(self) -> None:
        content = self.read(self.byte())
        # Python 2 wrote its str by this instruction: bytes or text, as the caller of torch.load says.
        self.stack.append(content if self.encoding == "bytes" else content.decode(self.encoding, "strict"))

    def unicode(self) -> None:
        self.stack.append(self.read(self.number("<I")).decode("utf-8", "surrogatepass"))

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.read(self.byte()), "little", signed=True))

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    INSTRUCTIONS: dict[bytes, Callable[[SafeUnpickler], Any]] = {
        b"\x80": protocol,
        b"c": global_,
        b"R": reduce,
        b"\x81": new_object,
        b"b": build,
        b"Q": persistent,
        b"a": append,
        b"e": appends,
        b"s": set_item,
        b"u": set_items,
        b"(": mark,
        b")": lambda self: self.stack.append(()),
        b"]": lambda self: self.stack.append([]),
        b"}": lambda self: self.stack.append({}),
        b"\x8f": lambda self: self.stack.append(set()),
        b"t": group,
        b"\x85": lambda self: self.stack.append(self.pop_tuple(1)),
        b"\x86": lambda self: self.stack.append(self.pop_tuple(2)),
        b"\x87": lambda self: self.stack.append(self.pop_tuple(3)),
        b"N": lambda self: self.stack.append(None),
        b"\x88": lambda self: self.stack.append(True),
        b"\x89": lambda self: self.stack.append(False),
        b"J": lambda self: self.stack.append(self.number("<i")),
        b"K": lambda self: self.stack.append(self.byte()),
        b"M": lambda self: self.stack.append(self.number("<H")),
        b"G": lambda self: self.stack.append(self.number(">d")),
        b"U": short_string,
        b"X": unicode,
        b"\x8a": long,
        b"h": lambda self: self.stack.append(self.memo[self.byte()]),
        b"j": lambda self: self.stack.append(self.memo[self.number("<I")]),
        b"q": lambda self: self.remember(self.byte()),
        b"r": lambda self: self.remember(self.number("<I")),
    }


# ---------------------------------------------------------------- what the user is told

VERSION_NOTE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. "
    "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code "
    "execution. Do it only if you got the file from a trusted source."
)
DOCUMENTATION = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def explained(error: UnpicklingError) -> UnpicklingError:
    """The error that torch.load raises: PyTorch's words around what the unpickler found."""
    kind = getattr(error, "kind", "unsupported")
    if kind == "global":
        text = (
            "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those steps "
            f"only if you trust the source of the checkpoint\033[0m. \n\t(1) {VERSION_NOTE}\n\t(2) Alternatively, to load "
            "with `weights_only=True` please check the recommended steps in the following error message.\n\t"
            f"WeightsUnpickler error: {error}"
        )
    else:
        text = f"Weights only load failed. {VERSION_NOTE}\n"
        if kind != "blocked":
            text += (
                "Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
                "case: WeightsUnpickler error: "
            )
        text += f"\n\n{error}"
    return UnpicklingError(text + DOCUMENTATION)
