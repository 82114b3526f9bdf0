"""Files that are there whole or not at all, whatever becomes of the process that writes them.

A file is written without a name, which it gets when it is complete: a process that is killed leaves nothing behind. Where a file
system knows no nameless files, it is written beside its place under a name that ends in `.saving`; what killed processes left
under such names is removed by later writers in the folder. Stands on the standard library; torch.save, downloads and the
cache of compiled kernels write through it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import zlib
from collections.abc import Iterator
from functools import cache
from typing import IO

#: Seconds without a write after which an unfinished file is taken for that of a dead process, if its name doesn't tell: of a
#: process on this machine it does.
ABANDONED = 3600.0
_ENDING = ".saving"
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_swept: dict[str, float] = {}  # folder -> when this process last looked for abandoned files in it


@contextlib.contextmanager
def replacing(path: str, folder: int | None = None, permissions: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when the block ends without an exception; until then, and if it doesn't,
    what was there stays as it was.

    folder: the descriptor of a directory, of which `path` is then a file. permissions: of a new file, before the umask; a file
    that is replaced hands its own on. Links are followed, but not in a given folder. What is no regular file (a pipe,
    /dev/null), or lies in a folder where no file can be made, is written directly. Raises PermissionError for a file that is
    protected from writing, OSError.
    """
    if folder is not None:
        with _in_folder(folder, path, permissions, None) as file:
            yield file
        return
    target = os.path.realpath(path)
    home, name = os.path.split(target)
    mode = None
    if os.path.lexists(target):
        status = os.stat(target)
        if not stat.S_ISREG(status.st_mode) or not os.access(home, os.W_OK | os.X_OK):
            with open(target, "wb") as file:
                yield file
            return
        if not os.access(target, os.W_OK):  # replacing it would get around its write protection
            raise PermissionError(13, "Permission denied", path)
        mode = stat.S_IMODE(status.st_mode)
    try:
        descriptor = os.open(home, _FOLDER)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    try:
        with _in_folder(descriptor, name, permissions, mode) as file:
            yield file
    finally:
        os.close(descriptor)
    sweep(home)


@contextlib.contextmanager
def _in_folder(folder: int, name: str, permissions: int, mode: int | None) -> Iterator[IO[bytes]]:
    """The file `name` of a folder given by its descriptor; mode: what a file that it replaces hands on."""
    descriptor, temporary = _unnamed(folder, permissions), None
    if descriptor is None:
        descriptor, temporary = _named(folder, name, permissions)
    try:
        with open(descriptor, "wb", buffering=1 << 20) as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, mode)
            if temporary is None:
                temporary = _put(descriptor, folder, name, permissions)
        if temporary is not None:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
        raise


def _unnamed(folder: int, permissions: int) -> int | None:
    """A file without a name, or None where there is no such thing."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        return os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, permissions, dir_fd=folder)
    except OSError:  # whatever it is: a file with a name has it too, or hasn't
        return None


def _named(folder: int, name: str, permissions: int) -> tuple[int, str]:
    """(a file beside the place of `name`, its own name)."""
    temporary = _temporary(name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.open(temporary, flags, permissions, dir_fd=folder), temporary


def _temporary(name: str) -> str:
    short = name.encode()[:200].decode(errors="ignore")  # with what is added it must be a name still
    return f".{short}.{_machine()}.{os.getpid()}.{os.urandom(4).hex()}{_ENDING}"


@cache
def _machine() -> str:
    """What tells this machine, since it started, from others that write to the same folder; containers have processes of their
    own.
    """
    parts = [os.uname().nodename]
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
        with open("/proc/sys/kernel/random/boot_id") as file:
            parts.append(file.read())
    return f"{zlib.crc32(' '.join(parts).encode()):08x}"


def _is_dead(name: str) -> bool:
    """Whether the process that made this unfinished file was on this machine and has ended."""
    parts = name.rsplit(".", 4)
    if len(parts) < 5 or parts[1] != _machine() or not parts[2].isdecimal():
        return False
    try:
        os.kill(int(parts[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _put(descriptor: int, folder: int, name: str, permissions: int) -> str | None:
    """Give a file its name; if that is taken, another one, which is returned: only a rename replaces a file at one stroke."""
    itself = f"/proc/self/fd/{descriptor}"
    try:
        os.link(itself, name, dst_dir_fd=folder, follow_symlinks=True)
        return None
    except FileExistsError:
        pass
    except OSError:
        return _copied(descriptor, folder, name, permissions)
    temporary = _temporary(name)
    os.link(itself, temporary, dst_dir_fd=folder, follow_symlinks=True)
    return temporary


def _copied(descriptor: int, folder: int, name: str, permissions: int) -> str:
    """A copy, which has a name, of a file that can't be given one (no /proc, links forbidden)."""
    copy, temporary = _named(folder, name, permissions)
    try:
        os.fchmod(copy, stat.S_IMODE(os.fstat(descriptor).st_mode))
        place, size = 0, os.fstat(descriptor).st_size
        while place < size:
            place += os.sendfile(copy, descriptor, place, size - place)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(copy)
    return temporary


def sweep(folder: str) -> None:
    """Remove unfinished files of dead processes from a folder, which is looked at once an hour at most."""
    now = time.time()
    if now - _swept.get(folder, -ABANDONED) < ABANDONED:
        return
    _swept[folder] = now
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.name.startswith(".") and entry.name.endswith(_ENDING)):
                continue
            with contextlib.suppress(OSError):  # somebody else removed it
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and (now - status.st_mtime > ABANDONED or _is_dead(entry.name)):
                    os.unlink(entry.path)
