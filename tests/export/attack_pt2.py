"""Damages .pt2 files, and loads them: every one must end in an exception or in a program, and nothing of a file may run.

`python tests/export/attack_pt2.py [FLIPS]` cuts each file of tests/export/files at every percent, and turns FLIPS (2,000) bits,
in a process with little memory; it prints how the loads ended. tests/export/test_pt2_hostile.py does a sample of it.
"""

import collections
import io
import pathlib
import pickle
import random
import resource
import struct
import sys
import warnings

import flambeau as torch
from flambeau._export.verifier import SpecViolationError
from flambeau.export import load

FILES = sorted((pathlib.Path(__file__).parent / "files").glob("*.pt2"))
#: What an audit hook is told of when a file's text has something run or opened.
ALARMING = ("os.", "subprocess.", "open", "import", "socket.", "ctypes.dlopen", "shutil.", "pickle.find_class", "marshal.")
#: Exceptions that tell of a file; others would be mistakes in the reader.
TELLING = (
    RuntimeError, ValueError, AssertionError, LookupError, TypeError, AttributeError, EOFError, SpecViolationError, struct.error,
    pickle.UnpicklingError,
)  # fmt: skip
_heard: list[str] = []
_listening = False


def _hear(event: str, arguments: tuple) -> None:
    if _listening and event.startswith(ALARMING) and "flambeau" not in str(arguments):
        _heard.append(f"{event}{arguments!r}"[:200])


sys.addaudithook(_hear)
for _path in FILES:  # what is imported when it is first used
    _program = load(_path)
    str(_program), _program.module()


def ended(content: bytes, run: bool = False) -> str:
    """How loading these bytes ends: the exception's name, "loaded", or with `run` what running the program ends in."""
    global _listening
    _heard.clear()
    _listening = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = load(io.BytesIO(content))
            str(program)
            module = program.module()
    except RecursionError:
        raise
    except TELLING as error:
        assert str(error) or isinstance(error, EOFError), f"a {type(error).__name__} without a text"
        return type(error).__name__
    finally:
        _listening = False
        assert not _heard, f"a file had these run: {_heard}"
    if run and program.example_inputs is not None:
        args, kwargs = program.example_inputs
        try:
            module(*args, **kwargs)
        except Exception as error:
            return f"loaded, ran into {type(error).__name__}"
        return "loaded and ran"
    return "loaded"


def cut(content: bytes) -> list[bytes]:
    """The content cut at every percent."""
    return [content[: len(content) * i // 100] for i in range(100)]


def flipped(content: bytes, count: int, seed: int) -> list[bytes]:
    """The content with one bit turned, `count` times anew."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        at, bit = draw.randrange(len(content)), draw.randrange(8)
        made.append(content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :])
    return made


def main() -> None:
    """Attack every file."""
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for path in FILES:
        content = path.read_bytes()
        assert ended(content, run=True) == "loaded and ran"
        cuts = collections.Counter(ended(part) for part in cut(content))
        assert "loaded" not in cuts, path
        flips = collections.Counter(ended(part, run=True) for part in flipped(content, count, len(content)))
        print(f"{path.name}: cut {dict(cuts)}; flipped {dict(flips)}")


if __name__ == "__main__":
    main()
