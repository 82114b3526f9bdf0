"""Files that are there whole or not at all: whatever goes wrong, the old content stays, and nothing is left beside it."""

import os
import signal
import stat
import time

import pytest

from flambeau.base import whole_files
from flambeau.base.whole_files import replacing


@pytest.fixture(params=["unnamed", "named", "unlinkable"])
def way(request, monkeypatch):
    """File systems with nameless files, without, and those where one can't be given a name."""
    if request.param == "named":
        monkeypatch.setattr(whole_files, "_unnamed", lambda folder, permissions: None)
    if request.param == "unlinkable":

        def refuse(*arguments, **options):
            raise PermissionError(1, "links are forbidden")

        monkeypatch.setattr(os, "link", refuse)


def test_a_new_file_and_one_that_is_replaced(way, tmp_path):
    path = tmp_path / "a"
    old = os.umask(0o027)
    try:
        with replacing(str(path)) as file:
            file.write(b"first")
            assert not path.exists()
    finally:
        os.umask(old)
    assert path.read_bytes() == b"first" and stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    with replacing(str(path)) as file:
        file.write(b"second" * 500_000)
        assert path.read_bytes() == b"first"
    assert path.read_bytes() == b"second" * 500_000 and stat.S_IMODE(path.stat().st_mode) == 0o604
    assert os.listdir(tmp_path) == ["a"]


def test_what_fails_leaves_the_old_file(way, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replacing(str(path)) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_not_there_and_a_file_that_is_protected(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError), replacing(str(tmp_path / "no" / "a")):
        pass
    path = tmp_path / "a"
    path.write_bytes(b"old")
    real = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: place != str(path) and real(place, mode))  # root may write to all
    with pytest.raises(PermissionError), replacing(str(path)):
        pass
    assert path.read_bytes() == b"old"


def test_long_names_and_links(way, tmp_path):
    name = "ä" * 127
    (tmp_path / name).write_bytes(b"old")
    os.symlink(name, tmp_path / "link")
    with replacing(str(tmp_path / "link")) as file:
        file.write(b"new")
    assert (tmp_path / name).read_bytes() == b"new" and os.path.islink(tmp_path / "link")
    assert sorted(os.listdir(tmp_path)) == ["link", name]


def test_a_writer_that_is_killed_leaves_nothing_for_good(way, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    for _ in range(3):
        child = os.fork()
        if not child:
            with replacing(str(path)) as file:
                file.write(b"half" * 1_000_000)
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
    assert path.read_bytes() == b"old"
    left = [entry for entry in tmp_path.iterdir() if entry != path]
    for entry in left:  # as they are a day later; what is fresh may belong to somebody
        os.utime(entry, (time.time() - 86_400,) * 2)
    mine = tmp_path / ".mine"
    mine.write_bytes(b"")
    os.utime(mine, (0, 0))
    whole_files._swept.clear()
    with replacing(str(path)) as file:
        file.write(b"new")
        fresh = tmp_path / ".b.1.ab.saving"
        fresh.write_bytes(b"")
    assert path.read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == [".b.1.ab.saving", ".mine", "a"]


def test_the_next_writer_on_the_machine_need_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_files, "_unnamed", lambda folder, permissions: None)
    path = tmp_path / "a.b"
    child = os.fork()
    if not child:
        with replacing(str(path)) as file:
            file.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(os.listdir(tmp_path)) == 1
    whole_files._swept.clear()
    with replacing(str(path)) as file:
        file.write(b"new")
        with replacing(str(tmp_path / "c")) as other:  # one that is being written stays
            other.write(b"newer")
    assert sorted(os.listdir(tmp_path)) == ["a.b", "c"] and path.read_bytes() == b"new"
