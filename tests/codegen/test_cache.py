"""The disk cache of kernels: whose files are run, and what becomes of those that aren't what they should be."""

import hashlib
import os
import stat
import subprocess
import sys
import types

import pytest

from flambeau.base import whole_files
from flambeau.codegen.object_cache import cache
from flambeau.codegen.object_cache.image import Image

IMAGE = Image(b"\xc3" + bytes(31), {"kernel": 0}, {8: "memcpy"}, [(16, 24)])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Chooses the cache directory anew, and forgets it afterwards."""

    def choose(path, **environment):
        for name in ("FLAMBEAU_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"FLAMBEAU_CACHE": str(path), **environment}.items():
            monkeypatch.setenv(name, value)
        cache.directory.cache_clear()
        return cache.directory()

    yield choose
    cache.directory.cache_clear()


def test_an_image_comes_back_as_it_was(place, tmp_path):
    assert place(tmp_path / "a" / "b") == str(tmp_path / "a" / "b")
    assert {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("a", "a/b")} == {0o700}
    cache.write("key", IMAGE)
    assert cache.read("key") == IMAGE and cache.read("other") is None
    cache.write("key", Image(b"\xc3", {"second": 0}))
    assert cache.read("key") == Image(b"\xc3", {"second": 0})
    assert os.listdir(tmp_path / "a" / "b") == ["key.image"]
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b" / "key.image").st_mode) == 0o600


@pytest.mark.parametrize("parts", [
    5, None, (), (b"x",), (1, 2, 3, 4), ("text", {"kernel": 0}, {}, []), (b"", {}, {}, []), (b"abc", {}, {}, []),
    (b"abc", {"kernel": 3}, {}, []), (b"abc", {"kernel": -1}, {}, []), (b"abc", {5: 0}, {}, []),
    (b"abc", {"kernel": "0"}, {}, []), (b"abc", {"kernel": 0}, {0: "memcpy"}, []), (bytes(16), {"kernel": 0}, {9: "memcpy"}, []),
    (bytes(16), {"kernel": 0}, {0: 7}, []),
    (bytes(16), {"kernel": 0}, {}, [(9, 0)]), (bytes(16), {"kernel": 0}, {}, [(0, 2**70)]), (bytes(16), {"kernel": 0}, {}, [5]),
    (bytes(16), {"kernel": 0}, {-1: "memcpy"}, []), (bytes(16), [0], {}, []), [[[[]]]],
])  # fmt: skip
def test_what_is_no_image_is_ignored_however_well_it_is_signed(place, tmp_path, parts):
    place(tmp_path)
    cache.write_object("key.image", parts)
    assert cache.read("key") is None


def test_damaged_files_are_ignored(place, tmp_path):
    place(tmp_path)
    cache.write("key", IMAGE)
    path = tmp_path / "key.image"
    good = path.read_bytes()
    flipped = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(len(good))]
    signed = hashlib.sha256(b"garbage").digest() + b"garbage"
    for content in (b"", bytes(5000), b"x" * 31, b"x" * 32, signed, good + b"x", good[:-1], *flipped):
        path.write_bytes(content)
        assert cache.read("key") is None
    cache.write_bytes("key.image", b"no marshal")
    assert cache.read("key") is None
    path.write_bytes(good)
    assert cache.read("key") == IMAGE
    os.rename(path, tmp_path / "other.image")  # an image is valid under its own name only
    assert cache.read("other") is None


def test_what_is_no_plain_file_is_ignored(place, tmp_path):
    place(tmp_path / "cache")
    cache.write("key", IMAGE)
    path = tmp_path / "cache" / "key.image"
    os.rename(path, tmp_path / "key.image")
    os.symlink(tmp_path / "key.image", path)
    assert cache.read("key") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.read("key") is None  # and nobody waits for a writer
    path.unlink()
    path.mkdir()
    assert cache.read("key") is None
    cache.write("key", IMAGE)  # can't be, which is no error
    path.rmdir()
    with open(path, "wb") as file:
        file.truncate(cache.LARGEST + 1)
    assert cache.read("key") is None


@pytest.mark.parametrize("mode", [0o622, 0o666, 0o606])
def test_files_that_others_can_write_are_ignored(place, tmp_path, mode):
    place(tmp_path)
    cache.write("key", IMAGE)
    os.chmod(tmp_path / "key.image", mode)
    assert cache.read("key") is None


def seen_otherwise(monkeypatch, function, which, **fields):
    """Have os.stat or os.fstat tell something else of what `which` says."""
    real = getattr(os, function)

    def otherwise(place, **options):
        found = real(place, **options)
        if not which(place, found):
            return found
        values = {"st_mode": found.st_mode, "st_uid": found.st_uid, "st_gid": found.st_gid, "st_size": found.st_size, **fields}
        return types.SimpleNamespace(**values)

    monkeypatch.setattr(os, function, otherwise)


def test_files_and_directories_of_others_are_ignored(place, tmp_path):
    place(tmp_path / "cache")
    cache.write("key", IMAGE)
    other = os.geteuid() + 1
    for kind in (stat.S_ISREG, stat.S_ISDIR):  # asked of what was opened, after the place was chosen
        with pytest.MonkeyPatch.context() as patch:
            seen_otherwise(patch, "fstat", lambda _, found, kind=kind: kind(found.st_mode), st_uid=other)
            assert cache.read("key") is None
        assert cache.read("key") == IMAGE
    with pytest.MonkeyPatch.context() as patch:
        seen_otherwise(patch, "stat", lambda path, _: str(path) == str(tmp_path / "cache"), st_uid=other)
        assert place(tmp_path / "cache") is None


def test_a_directory_that_others_can_exchange_is_not_used(place, tmp_path):
    above = tmp_path / "a"
    assert place(above / "b") is not None
    os.symlink(above / "b", tmp_path / "link")
    above.chmod(0o777)
    assert place(above / "b") is None and place(tmp_path / "link") is None
    above.chmod(0o1777)  # as /tmp
    assert place(above / "b") is not None
    above.chmod(0o755)
    me = os.geteuid()
    for owner, group, mode, good in [
        (0, 4, 0o755, True),
        (me + 1, 4, 0o755, False),
        (me + 1, 4, 0o1777, False),
        (me, 4 + me, 0o775, False),
        (me, os.getegid(), 0o775, os.getegid() == me),
    ]:
        with pytest.MonkeyPatch.context() as patch:
            seen_otherwise(
                patch, "stat", lambda path, _: str(path) == str(above), st_uid=owner, st_gid=group, st_mode=stat.S_IFDIR | mode
            )
            assert (place(above / "b") is not None) == good


def test_the_place_is_chosen_once(place, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert place("cache") == str(tmp_path / "here" / "cache")
    os.symlink(tmp_path / "here", tmp_path / "link")
    assert place(tmp_path / "link" / "cache") == str(tmp_path / "here" / "cache")
    monkeypatch.chdir(tmp_path / "there")
    cache.write("key", IMAGE)
    assert os.listdir(tmp_path / "here" / "cache") == ["key.image"] and not os.listdir(tmp_path / "there")


def test_places_that_are_none(place, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(b"")
    for path in (file, file / "below", "/proc/flambeau", "/dev/null", "x" * 5000, "/dev/null/a"):
        assert place(path) is None
    assert place("", HOME=str(tmp_path), XDG_CACHE_HOME="relative") == str(tmp_path / ".cache" / "flambeau")
    assert place("", HOME="relative") is None
    assert place("0") is None


def test_a_process_that_is_killed_leaves_no_unfinished_file(place, tmp_path, monkeypatch):
    program = (
        "import os, signal; from flambeau.codegen.object_cache import cache; from flambeau.base import whole_files\n"
        "put = whole_files._put\n"
        "def kill(*arguments): os.kill(os.getpid(), signal.SIGKILL)\n"
        "whole_files._put = kill\n"
        "cache.write_bytes('a.image', bytes(100_000))"
    )
    env = {**os.environ, "FLAMBEAU_CACHE": str(tmp_path)}
    before = set(os.listdir(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], env=env, timeout=600)
    assert done.returncode == -9 and not [name for name in os.listdir(tmp_path) if not name.endswith((".image", ".bin"))]
    assert "a.image" not in set(os.listdir(tmp_path)) - before
    old = tmp_path / ".a.image.1.ab.saving"  # where there are no nameless files
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    place(tmp_path)
    whole_files._swept.clear()
    cache.write("key", IMAGE)
    assert not old.exists() and cache.read("key") == IMAGE


def test_nothing_is_made_in_the_home_of_somebody_else(place, tmp_path, monkeypatch):
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)  # the home's owner is neither this user nor root
    if owner == 0:
        os.chown(tmp_path, 12345, 12345)
    assert place(tmp_path / "home" / ".cache" / "flambeau") is None
    assert os.listdir(tmp_path) == []
