"""torch.hub: entry points of local folders and of copies of repositories, and what libraries import from there."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path

import pytest

import flambeau as torch


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    torch.hub.set_dir(tmp_path)
    folder = tmp_path / "owner_name_main"
    folder.mkdir()
    (folder / "hubconf.py").write_text(
        "dependencies = ['numpy']\nfrom hub_test_part import z\n\n"
        "def entry(a=1):\n    'What entry does.'\n    return a, z\n\n_hidden = lambda: 1\nx = 3\n"
    )
    (folder / "hub_test_part.py").write_text("z = 5\n")
    yield folder
    sys.modules.pop("hub_test_part", None)
    torch.hub.files._directory = None


def test_entry_points_of_a_folder(repository: Path) -> None:
    assert torch.hub.load(str(repository), "entry", source="local", a=4) == (4, 5)
    assert str(repository) not in sys.path
    for name in ("nothing", "x"):
        with pytest.raises(RuntimeError, match=f"Cannot find callable {name} in hubconf"):
            torch.hub.load(str(repository), name, source="local")
    with pytest.raises(ValueError, match=r'Unknown source: "zz". Allowed values: "github" | "local"'):
        torch.hub.load(str(repository), "entry", source="zz")
    with pytest.raises(FileNotFoundError):
        torch.hub.load(str(repository) + "q", "entry", source="local")
    (repository / "hubconf.py").write_text("dependencies = ['no_such_package']\ndef entry(): pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        torch.hub.load(str(repository), "entry", source="local")


def test_copies_of_repositories(repository: Path, capsys: pytest.CaptureFixture) -> None:
    assert torch.hub.list("owner/name:main") == ["entry"]
    assert capsys.readouterr().out == f"Using cache found in {repository}\n"
    assert torch.hub.help("owner/name", "entry") == "What entry does."
    assert torch.hub.load("owner/name", "entry", 3, verbose=False) == (3, 5)
    with pytest.raises(NotImplementedError, match=r"git clone -b v1 https://github.com/owner/other .*owner_other_v1"):
        torch.hub.load("owner/other:v1", "entry")


def test_names_that_libraries_import(monkeypatch: pytest.MonkeyPatch) -> None:
    from flambeau.utils.model_zoo import tqdm

    assert torch.hub.HASH_REGEX.search("resnet18-f37072fd.pth").group(1) == "f37072fd" and tqdm is torch.hub.tqdm
    monkeypatch.setenv("TORCH_HOME", "/somewhere")
    assert torch.hub._get_torch_home() == "/somewhere" and torch.hub.get_dir() == "/somewhere/hub"


def test_a_download_shows_its_progress(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(b"x" * 1000)
    bar = torch.hub._Faketqdm(total=10)
    bar.update(5)
    assert capsys.readouterr().err == "\r50.0%"
    torch.hub.download_url_to_file(source.as_uri(), str(tmp_path / "copy.bin"), progress=False)
    assert (tmp_path / "copy.bin").read_bytes() == source.read_bytes() and capsys.readouterr().err == ""


def test_downloads_are_whole_or_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "model.bin"
    place.write_bytes(b"before")
    source = tmp_path.parent / "source_of_download.bin"
    source.write_bytes(b"x" * 1000)
    with pytest.raises(RuntimeError, match=r'invalid hash value \(expected "123"'):
        torch.hub.download_url_to_file(source.as_uri(), str(place), hash_prefix="123", progress=False)
    assert os.listdir(tmp_path) == ["model.bin"] and place.read_bytes() == b"before"

    class KillsItsReader(io.BytesIO):
        def read(self, size: int = -1) -> bytes:
            return super().read(size) or os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("urllib.request.urlopen", lambda request: KillsItsReader(b"y" * 1000))
    child = os.fork()
    if not child:
        try:
            torch.hub.download_url_to_file("http://nowhere/model.bin", str(place), progress=False)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert os.listdir(tmp_path) == ["model.bin"] and place.read_bytes() == b"before"
    monkeypatch.undo()
    torch.hub.download_url_to_file(source.as_uri(), str(place), progress=False)
    assert place.read_bytes() == b"x" * 1000 and os.listdir(tmp_path) == ["model.bin"]
