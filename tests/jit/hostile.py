"""Damaged and hostile TorchScript archives: each must end in an exception, and nothing in it may run.

    python tests/jit/hostile.py            # all: every archive cut at every percent, 2,000 bits turned, each payload
    from hostile import Attack             # a sample, in test_hostile_archives.py

An audit hook hears what Python does: a command, a process, a connection or a file that is written counts as an execution.
"""

from __future__ import annotations

import io
import itertools
import pickle
import random
import resource
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import flambeau as torch

ARCHIVES = sorted((Path(__file__).parent / "archives").glob("*.pt"))
#: What ends a load of a bad file: all that Python's own readers of files raise, and nothing that stops a process.
EXPECTED = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError, struct.error, pickle.UnpicklingError,
            NotImplementedError, AssertionError, OverflowError, RecursionError)  # fmt: skip
_HEARD: list[str] = []
_WATCHED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename", "subprocess.Popen", "socket.connect",
            "ctypes.dlopen", "shutil.rmtree")  # fmt: skip
_listening = False


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _listening:
        return
    if event in _WATCHED:
        _HEARD.append(f"{event}{arguments!r:.100}")
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        _HEARD.append(f"open{arguments!r:.100}")


sys.addaudithook(_hook)


class Attack:
    """Loads bad archives and counts how they end."""

    def __init__(self) -> None:
        self.loaded = self.refused = 0
        self.wrong: list[str] = []

    def load(self, content: bytes, name: str, must_fail: bool = False) -> None:
        """Load an archive and call what comes of it."""
        global _listening
        _HEARD.clear()
        _listening = True
        try:
            program = torch.jit.load(io.BytesIO(content), map_location="cpu")
            self.loaded += 1
            if must_fail:
                self.wrong.append(f"{name}: was loaded")
            str(program)
        except EXPECTED:
            self.refused += 1
        except (Exception, MemoryError) as error:
            self.wrong.append(f"{name}: {type(error).__name__}: {error!s:.200}")
        finally:
            _listening = False
        if _HEARD:
            self.wrong.append(f"{name}: ran {_HEARD}")

    def cuts(self, path: Path, step: int = 1) -> None:
        """The file cut at every percent."""
        content = path.read_bytes()
        for percent in range(0, 100, step):
            self.load(content[: len(content) * percent // 100], f"{path.name} cut at {percent} %", must_fail=True)

    def flips(self, path: Path, count: int, seed: int = 0) -> None:
        """The file with one bit turned."""
        content = path.read_bytes()
        chance = random.Random(seed)
        for _ in range(count):
            place, bit = chance.randrange(len(content)), chance.randrange(8)
            bad = bytearray(content)
            bad[place] ^= 1 << bit
            self.load(bytes(bad), f"{path.name} bit {place}.{bit}")

    def payloads(self, every: int = 1) -> None:
        """Archives that were written to do harm, or every so many of them."""
        for name, content in itertools.islice(payloads(), 0, None, every):
            self.load(content, name, must_fail=True)


def rewritten(path: Path, changes: dict[str, bytes], compress: bool = False) -> bytes:
    """An archive with other contents in some records, by the ends of their names."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(path) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as new,
    ):
        for record in old.namelist():
            change = next((content for end, content in changes.items() if record.endswith(end)), None)
            new.writestr(record, old.read(record) if change is None else change)
    return made.getvalue()


_HEAD = """class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  a : __torch__.torch.nn.modules.linear.Linear
  b : __torch__.torch.nn.modules.linear.___torch_mangle_0.Linear
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
"""
_BODIES = {
    "import": "    import os\n    return x\n",
    "from": "    from os import system\n    return x\n",
    "os": "    os.system('true')\n    return x\n",
    "dunder import": "    __import__('os').system('true')\n    return x\n",
    "eval": "    eval('1')\n    return x\n",
    "exec": "    exec('x = 1')\n    return x\n",
    "open": "    open('/tmp/hostile', 'w')\n    return x\n",
    "attributes": "    return x.__class__.__mro__[1].__subclasses__()\n",
    "torch attributes": "    return torch.os.system('true')\n",
    "torch dunder": "    return torch.__builtins__['eval']('1')\n",
    "torch load": "    return torch.load('/tmp/x')\n",
    "torch private": "    return torch._C._set_grad_enabled(False)\n",
    "ops load": "    return ops.load_library('/tmp/x.so')\n",
    "ops loaded": "    return ops.prim.PythonOp(x)\n",
    "self dunder": "    return self.__class__\n",
    "self dict": "    return self.__dict__\n",
    "getattr": "    return getattr(self, '__class__')\n",
    "globals": "    return globals()\n",
    "function globals": "    return self.forward.__globals__\n",
    "format": "    return '{0.__class__}'.format(x)\n",
    "lambda": "    return (lambda: x)()\n",
    "yield": "    yield x\n",
    "walrus": "    return (y := x)\n",
    "async": "    return await x\n",
    "global": "    global y\n    y = x\n    return x\n",
    "try": "    try:\n      return x\n    except:\n      return x\n",
    "class": "    class A:\n      pass\n    return x\n",
    "nested function": "    def f(y: Tensor) -> Tensor:\n      return y\n    return f(x)\n",
    "recursion": "    return (self).forward(x, )\n",
    "unknown constant": "    return torch.add(x, CONSTANTS.c99)\n",
    "bad constant": "    return torch.add(x, CONSTANTS.__class__)\n",
    "unknown class": "    return (__torch__.os.System(x)).run()\n",
    "deep attribute": "    return x" + ".a" * 50_000 + "\n",
    "deep brackets": "    return " + "(" * 300 + "x" + ")" * 300 + "\n",
    "deep calls": "    return " + "torch.relu(" * 90 + "x" + ")" * 90 + ".foo\n",
    "deep sum": "    return x" + " + x" * 20_000 + "\n",
    "comparisons": "    return x" + " < x" * 20_000 + "\n",
    "not": "    return " + "not " * 20_000 + "x\n",
    "huge integer": "    return torch.add(x, " + "9" * 4000 + ")\n",
    "integer of 65 bits": "    return torch.add(x, 99999999999999999999)\n",
    "string bomb": "    y = 'a' * 10000000000\n    return x\n",
    "power bomb": "    return torch.add(x, 10 ** 10 ** 10, 'x')\n",
    "shift bomb": "    return torch.add(x, 1 << 10000000000, 'x')\n",
    "list bomb": "    y = [0] * 100000000000\n    return torch.add(x, y)\n",
    "range bomb": "    y = [i for i in range(100000000000)]\n    return y\n",
    "wrong type": "    return 3\n",
    "no return": "    pass\n",
    "bytes": "    return b'x'\n",
    "star": "    return torch.add(*x)\n",
    "keywords": "    return torch.add(**x)\n",
    "del": "    del self.training\n    return x\n",
    "set attribute": "    x.__class__ = 3\n    return x\n",
    "decorated": "    return x\n  @os.system\n  def g(self: __torch__.Net) -> int:\n    return 1\n",
    "zeros": "    return x\0\n",
}
_FILES = {
    "an import": b"import os\nos.system('true')\n",
    "an expression": b"__import__('os').system('true')\n",
    "a class with code": b"class Net(Module):\n  print('x')\n  __import__('os').system('true')\n",
    "a base with code": b"class Net(__import__('os').system('true')):\n  pass\n",
    "a default with code": _HEAD.replace("x: Tensor)", "x: Tensor=__import__('os').system('true'))").encode() + b"    return x\n",
    "an annotation with code": _HEAD.replace("training : bool", "training : __import__('os').system('true')").encode()
    + b"    return x\n",
    "a type of itself": _HEAD.replace("training : bool", "training : bool\n  more : __torch__.Net").encode() + b"    return x\n",
    "no text": b"\xff\xfe\x00\x01" * 20,
    "nothing": b"",
    "another class": b"class Other(Module):\n  pass\n",
    "an enumeration": b"class Net(Enum):\n  A = __import__('os')\n",
    "a million lines": b"class Net(Module):\n" + b"  a : int\n" * 1_000_000,
    "a constant with code": _HEAD.replace("training : bool", "training : bool\n  c : Final[int] = eval('1')").encode()
    + b"    return x\n",
}


def _global(module: str, name: str) -> bytes:
    return b"\x80\x02" + f"c{module}\n{name}\n".encode()


def _called(module: str, name: str, argument: bytes = b"X\x04\x00\x00\x00true") -> bytes:
    return _global(module, name) + b"(" + argument + b"tR."


def _tensor(numel: int, sizes: bytes, strides: bytes, offset: bytes = b"K\x00") -> bytes:
    count = b"\x8a\x08" + struct.pack("<q", numel)
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
            b"X\x03\x00\x00\x00cpu" + count + b"tQ" + offset + sizes + strides
            + b"\x89ccollections\nOrderedDict\n)RtR.")  # fmt: skip


_BIG = b"(\x8a\x08" + struct.pack("<q", 1 << 60) + b"t"
_PICKLES = {
    "os.system": _called("os", "system"),
    "posix.system": _called("posix", "system"),
    "eval": _called("builtins", "eval"),
    "getattr": _called("builtins", "getattr"),
    "subprocess": _called("subprocess", "Popen"),
    "torch.load": _called("torch", "load"),
    "torch.hub": _called("torch.hub", "load"),
    "flambeau": _called("flambeau", "load"),
    "a class by its name": _global("__torch__", "Net") + b")R.",
    "a missing class": _global("__torch__.os", "system") + b")\x81}b.",
    "a dunder": _global("__torch__", "__class__") + b")\x81}b.",
    "no object": b"\x80\x02K\x03.",
    "a long text": b"\x80\x02X\xff\xff\xff\xffabc.",
    "a long number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a deep list": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a deep tuple": b"\x80\x02)" + b"\x85" * 100_000 + b".",
    "a huge tensor": _tensor(1 << 60, _BIG, b"(K\x01t"),
    "a tensor larger than its memory": _tensor(4, _BIG, b"(K\x01t"),
    "a stride of nothing": _tensor(4, _BIG, b"(K\x00t"),
    "a far offset": _tensor(4, b"(K\x01t", b"(K\x01t", b"\x8a\x08" + struct.pack("<q", 1 << 62)),
    "no state": _global("__torch__", "Net") + b")\x81.",
    "a state that is none": _global("__torch__", "Net") + b")\x81K\x03b.",
    "itself": _global("__torch__", "Net") + b")\x81q\x00}(X\x01\x00\x00\x00ah\x00X\x01\x00\x00\x00bh\x00ub.",
    "the stack": b"\x80\x02" + b"0" * 50 + b".",
    "a mark": b"\x80\x02((((tt.",
    "a memo": b"\x80\x02j\xff\xff\xff\xff.",
}


def payloads() -> Iterator[tuple[str, bytes]]:
    """(what it does, an archive)."""
    base = Path(__file__).parent / "archives" / "scripted_mlp.pt"
    main = "code/__torch__.py"
    for name, body in _BODIES.items():
        yield f"code: {name}", rewritten(base, {main: (_HEAD + body).encode()})
    for name, content in _FILES.items():
        yield f"file: {name}", rewritten(base, {main: content})
    for name, content in _PICKLES.items():
        yield f"pickle: {name}", rewritten(base, {"/data.pkl": content})
        if name not in ("no object", "a mark"):
            yield f"constants: {name}", rewritten(base, {"constants.pkl": content})
    yield "bomb", rewritten(base, {main: b"class Net(Module):\n" + b"  #" + b"a" * (80 << 20) + b"\n"}, compress=True)
    yield "version", rewritten(base, {"/version": b"99999\n"})
    yield "no constants", rewritten(base, {"constants.pkl": b""})


def main() -> int:
    """Everything; 1 if anything went wrong."""
    attack = Attack()
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    for path in ARCHIVES:
        attack.cuts(path)
    for number, path in enumerate(ARCHIVES):
        attack.flips(path, 2000 // len(ARCHIVES), seed=number)
    attack.payloads()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{attack.refused} refused, {attack.loaded} loaded (bits that change no more than values or places), peak {peak} MB")
    print("\n".join(attack.wrong) or "nothing went wrong")
    return bool(attack.wrong)


if __name__ == "__main__":
    sys.exit(main())
