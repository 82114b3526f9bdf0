"""The disk cache of code images: one small file per kernel, named by its LLVM text (or by what that text is written from and the
state of the sources that write it), the CPU and the versions.

Code is run from here, so nothing is believed that somebody else could have written: the directory, chosen once, lies where only
the user (or root) can exchange it, and it and every file in it are the user's own and nobody else's to write, which is asked of
what has been opened, not of a name. A file begins with a digest of its content, which ends with its name; one that doesn't
verify, or isn't what it should be, is ignored and written anew. Files appear whole or not at all (base/whole_files.py), so that
many processes can share a directory. `FLAMBEAU_CACHE` names another directory; `FLAMBEAU_CACHE=0` keeps the cache in memory only.
"""

from __future__ import annotations

import marshal
import os
import stat
from functools import cache
from typing import Any

from flambeau.codegen import cpu
from flambeau.codegen.object_cache.digest import sha256
from flambeau.codegen.object_cache.image import Image

FORMAT = 2
ROOMS = ("base", "ir", "codegen")  # where the sources lie that write kernels
LARGEST = 1 << 28  # bytes of a file that is read
_DIGEST = 32  # bytes of a digest
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not to wait for who writes to a pipe


@cache
def directory() -> str | None:
    """The cache directory of this user, or None if there is none to be had. (No pathlib here: it takes 2 ms to load.)"""
    chosen = os.environ.get("FLAMBEAU_CACHE", "")
    if chosen == "0":
        return None
    try:
        # One place for the whole process, wherever it changes to and whatever links it passes lead to later.
        root = os.path.realpath(chosen or _usual())
        # Of what is there, owners are asked before anything is made: root with a user's home leaves nothing of its own in it.
        above = [place for place in _places_above(root) if os.path.isdir(place)]
        if not all(_unexchangeable(place) for place in above):
            return None
        _make(root)
        return root if _private(os.stat(root)) and all(_unexchangeable(place) for place in _places_above(root)) else None
    except (OSError, RuntimeError, ValueError):
        return None


def _usual() -> str:
    """Where caches are. Raises RuntimeError for a user without a home."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):  # the standard says to ignore it
        home = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(home):
        raise RuntimeError("no home directory")
    return os.path.join(home, "flambeau")


def _make(folder: str) -> None:
    """Make a directory and those above it that don't exist, for this user alone."""
    if not os.path.isdir(folder):
        _make(os.path.dirname(folder))
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # another process was faster, or it is no directory
            if not os.path.isdir(folder):
                raise


def _places_above(folder: str) -> list[str]:
    places = []
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        places.append(folder)
    return places


def _private(status: os.stat_result) -> bool:
    """Whether something is the user's, and nobody else's to write."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _unexchangeable(folder: str) -> bool:
    """Whether nobody but the user and root can put something else in the place of what is theirs in a directory."""
    status = os.stat(folder)
    if status.st_uid not in (0, os.geteuid()):
        return False
    if status.st_mode & stat.S_ISVTX:  # as /tmp: there, things are exchanged by their owners only
        return True
    # a group that has its user's number is nobody else's, by the convention that makes such groups
    others = 0o002 if status.st_gid == os.getegid() == os.geteuid() else 0o022
    return not status.st_mode & others


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
    for room in rooms:  # rooms in a room are entered as they are found
        with os.scandir(room) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append(f"{entry.path[len(package) :]} {status.st_size} {int(status.st_mtime)}")
                elif entry.is_dir() and entry.name != "__pycache__":
                    rooms.append(entry.path)
    return sha256("\n".join(sorted(found)).encode()).hexdigest()


def key_of(*parts: str) -> str:
    return sha256("\0".join([machine(), *parts]).encode()).hexdigest()[:40]


def read(key: str) -> Image | None:
    """The image stored under `key`, or None (not there, damaged, not readable, nobody's image)."""
    return Image.from_tuple(read_object(key + ".image"))


def write(key: str, image: Image) -> None:
    write_object(key + ".image", image.to_tuple())


def read_object(name: str) -> Any:
    """What `write_object` stored, or None."""
    payload = read_bytes(name)
    try:
        return None if payload is None else marshal.loads(payload)
    except (ValueError, TypeError, EOFError, MemoryError):
        return None


def write_object(name: str, value: Any) -> None:
    """Store something made of Python's plain types and code."""
    write_bytes(name, marshal.dumps(value))


def read_bytes(name: str) -> memoryview | None:
    """The verified content of a cache file, or None."""
    root = directory()
    if root is None:
        return None
    try:
        folder = _open_own(root)
        try:
            file = os.open(name, _FILE, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            status = os.fstat(file)
            if not (stat.S_ISREG(status.st_mode) and _private(status) and _DIGEST <= status.st_size <= LARGEST):
                return None
            data = memoryview(os.read(file, status.st_size))
        finally:
            os.close(file)
    except OSError:
        return None
    content, end = data[_DIGEST:], name.encode()
    if sha256(content).digest() != data[:_DIGEST] or content[-len(end) :] != end:  # of another name, it is not valid
        return None
    return content[: -len(end)]


def _open_own(root: str) -> int:
    """The descriptor of the cache directory. Raises PermissionError if it isn't the user's own any more."""
    folder = os.open(root, _FOLDER)
    if not _private(os.fstat(folder)):
        os.close(folder)
        raise PermissionError(13, "others can write to the cache of kernels", root)
    return folder


def write_bytes(name: str, payload: bytes) -> None:
    """Store a cache file atomically; a cache that can't be written is no error."""
    from flambeau.base.whole_files import replacing, sweep  # a program whose kernels are all cached can do without

    root = directory()
    if root is None or len(payload) > LARGEST - _DIGEST:
        return
    try:
        folder = _open_own(root)
        try:
            with replacing(name, folder, 0o600) as file:
                content = payload + name.encode()
                file.write(sha256(content).digest())
                file.write(content)
        finally:
            os.close(folder)
    except OSError:
        pass
    sweep(root)
