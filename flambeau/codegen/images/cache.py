"""The disk cache of code images: one small file per kernel, named by its LLVM text (or by what that text is written from and the
state of the sources that write it), the CPU and the versions.

Files are written to a temporary name and renamed, so that many processes can share a directory; a file that does not verify is
ignored and written anew. `FLAMBEAU_CACHE` names another directory; `FLAMBEAU_CACHE=0` keeps the cache in memory only.
"""

from __future__ import annotations

import marshal
import os
from functools import cache

from flambeau.codegen import cpu
from flambeau.codegen.images.digest import sha256
from flambeau.codegen.images.image import Image

FORMAT = 1
ROOMS = ("base", "ir", "codegen")       # where the sources lie that write kernels


@cache
def directory() -> str | None:
    """The cache directory of this user, or None if there is none to be had. (No pathlib here: it takes 2 ms to load.)"""
    chosen = os.environ.get("FLAMBEAU_CACHE", "")
    if chosen == "0":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = chosen or os.path.join(home, "flambeau")
    try:
        os.makedirs(root, exist_ok=True, mode=0o700)
        # code is run from here: it must be the user's own, and nobody else's to write
        status = os.stat(root)
        return root if status.st_uid == os.getuid() and not status.st_mode & 0o022 else None
    except (OSError, RuntimeError):
        return None


@cache
def machine() -> str:
    """What compiled code depends on besides its text: the CPU and the compiler's version, read without loading LLVM."""
    import importlib.util

    from flambeau.version import __version__
    spec = importlib.util.find_spec("llvmlite")
    compiler = ""
    if spec and spec.origin:
        with open(os.path.join(os.path.dirname(spec.origin), "_version.py")) as f:
            compiler = f.read()
    text = f"{FORMAT}\n{cpu.description()}\n{compiler}\n{__version__}"
    return sha256(text.encode()).hexdigest()


@cache
def sources() -> str:
    """The state of the sources that write kernels, as Python tells whether its own caches are stale: by size and time."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = []
    rooms = [os.path.join(package, room) for room in ROOMS]
    for room in rooms:      # rooms in a room are entered as they are found
        with os.scandir(room) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append(f"{entry.path[len(package):]} {status.st_size} {int(status.st_mtime)}")
                elif entry.is_dir() and entry.name != "__pycache__":
                    rooms.append(entry.path)
    return sha256("\n".join(sorted(found)).encode()).hexdigest()


def key_of(*parts: str) -> str:
    return sha256("\0".join([machine(), *parts]).encode()).hexdigest()[:40]


def read(key: str) -> Image | None:
    """The image stored under `key`, or None (not there, damaged, not readable)."""
    data = read_bytes(key + ".image")
    return None if data is None else Image(*marshal.loads(data))


def write(key: str, image: Image) -> None:
    write_bytes(key + ".image", marshal.dumps(image.to_tuple()))


def read_bytes(name: str) -> bytes | None:
    """The verified content of a cache file, or None."""
    root = directory()
    if root is None:
        return None
    try:
        with open(os.path.join(root, name), "rb") as f:
            data = f.read()
    except OSError:
        return None
    payload = data[32:]
    return payload if sha256(payload).digest() == data[:32] else None


def write_bytes(name: str, payload: bytes) -> None:
    """Store a cache file atomically; a cache that can't be written is no error."""
    import tempfile  # brings half a dozen modules, which a program whose kernels are all cached can do without
    root = directory()
    if root is None:
        return
    try:
        handle, temporary = tempfile.mkstemp(dir=root)
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(sha256(payload).digest() + payload)
            os.replace(temporary, os.path.join(root, name))
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError:
        pass
