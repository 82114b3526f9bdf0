"""The distribution named torch: `flambeau install-torch`, the wheel, and what programs and pip then see in an environment."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import llvmlite
import numpy as np
import pytest

from flambeau.version import __version__
from flambeau_torch import distribution

Run = Callable[..., subprocess.CompletedProcess[str]]


class Environment:
    """A virtual environment that sees this checkout and its dependencies, as if they were installed there."""

    def __init__(self, folder: Path, root: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True)
        self.python = folder / "bin" / "python"
        self.packages = Path(self("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        seen = {str(root), *(str(Path(package.__file__).parent.parent) for package in (np, llvmlite))}
        (self.packages / "checkout.pth").write_text("\n".join(seen) + "\n")

    def __call__(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "VIRTUAL"))}
        return subprocess.run(
            [str(self.python), *map(str, arguments)],
            env={**kept, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            cwd=self.python.parent,
        )

    def pip(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        spec = importlib.util.find_spec("pip")
        bundled = sorted(Path(importlib.util.find_spec("ensurepip").origin).parent.glob("_bundled/pip-*.whl"))  # type: ignore
        where = Path(spec.origin).parent.parent if spec and spec.origin else bundled[-1]
        return self("-m", "pip", "--disable-pip-version-check", *arguments, PYTHONPATH=str(where))

    def contents(self) -> set[str]:
        beside = {path.name for path in self.python.parent.parent.iterdir()}
        return beside | {str(path.relative_to(self.packages)) for path in self.packages.rglob("*")}


@pytest.fixture(scope="module")
def empty(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"), root)


@pytest.fixture
def environment(empty: Environment):
    yield empty
    empty("-m", "flambeau_torch", "uninstall-torch")


PROGRAM = """
import importlib.metadata, importlib.util, multiprocessing, sys

def name_of(x):
    return f"{type(x).__module__}.{type(x).__qualname__}", x.tolist()

if __name__ == "__main__":
    assert not {"torch", "flambeau", "flambeau_torch"} & set(sys.modules)     # an interpreter starts as fast as before
    assert importlib.util.find_spec("torch").name == "torch" and "torch" not in sys.modules
    assert importlib.metadata.version("torch") == "VERSION"
    import torch
    import flambeau
    import flambeau.nn.functional
    import torch.nn.functional as F
    assert torch is flambeau and F is flambeau.nn.functional and sys.modules["torch"] is torch
    assert torch.__spec__.name == torch.__name__ == "torch" and importlib.util.find_spec("torch.nn").name == "torch.nn"
    assert repr(torch.nn.Linear) == "<class 'torch.nn.modules.linear.Linear'>"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.apply(name_of, (torch.arange(3),)))
"""


def test_every_program_of_the_environment_finds_torch(environment: Environment, tmp_path: Path) -> None:
    assert "No module named 'torch'" in environment("-c", "import torch").stderr
    before = environment.contents()
    answer = environment("-m", "flambeau_torch", "install-torch")
    assert answer.returncode == 0 and f"torch {__version__} is installed in {environment.packages}" in answer.stdout
    again = environment("-m", "flambeau_torch", "install-torch")
    assert (again.returncode, again.stdout) == (0, f"torch {__version__} is already installed in {environment.packages}\n")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("VERSION", __version__))
    answer = environment(program)
    assert answer.stdout == "torch.Tensor [0, 1, 2]\n", answer.stderr
    assert environment("-I", "-c", "from torch import nn; print(nn.__name__)").stdout == "torch.nn\n"
    assert environment("-m", "torch.utils.collect_env").stdout.startswith("flambeau version:")
    line = "import torch, importlib.metadata as m; print(torch.__name__, m.version('torch') == torch.__version__)"
    assert environment("-m", "flambeau_torch", "run", "-c", line).stdout == "torch True\n"
    answer = environment("-m", "flambeau_torch", "uninstall-torch")
    assert answer.stdout == f"torch {__version__} is uninstalled from {environment.packages}\n"
    assert {name for name in environment.contents() if "__pycache__" not in name} == before
    assert environment("-m", "flambeau_torch", "uninstall-torch").stdout.startswith("torch is not installed in")


def test_flambeau_keeps_its_name_if_it_comes_first(environment: Environment) -> None:
    environment("-m", "flambeau_torch", "install-torch")
    source = """
import flambeau, torch, flambeau.nn as ours, torch.nn as theirs, torch.optim
assert flambeau is torch and ours is theirs and torch.optim is flambeau.optim
print(torch.Tensor, theirs.Linear.__module__, torch.optim.SGD.__module__)
"""
    assert environment("-c", source).stdout == "<class 'flambeau.Tensor'> flambeau.nn.modules.linear flambeau.optim.sgd\n"


def test_pip_takes_the_wheel_for_torch(environment: Environment, tmp_path: Path) -> None:
    wheel = distribution.write_wheel(tmp_path)
    assert wheel.name == f"torch-{__version__}-py3-none-any.whl"
    assert wheel.read_bytes() == distribution.write_wheel(tmp_path / "again").read_bytes()
    before = environment.contents()
    answer = environment.pip("install", "--no-index", "--no-deps", wheel)
    assert answer.returncode == 0, answer.stderr
    assert environment("-c", "import torch; print(torch.ones(2).tolist())").stdout == "[1.0, 1.0]\n"
    assert f"torch {__version__}".split() in [line.split() for line in environment.pip("list").stdout.splitlines()]
    answer = environment.pip("install", "--no-index", "--no-deps", "torch", "torch>=1.11", "torch==2.13.0", "torch<2.14")
    assert answer.returncode == 0 and "Requirement already satisfied: torch" in answer.stdout, answer.stderr
    assert "Collecting" not in answer.stdout
    # either takes back what the other has installed
    assert environment("-m", "flambeau_torch", "uninstall-torch").returncode == 0
    assert environment.contents() == before
    environment("-m", "flambeau_torch", "install-torch")
    environment("-c", "import torch")
    answer = environment.pip("uninstall", "--yes", "torch")
    assert answer.returncode == 0, answer.stderr
    assert environment.contents() == before


def wheel(folder: Path, name: str, version: str, wants: str = "") -> None:
    """A distribution of nothing but its metadata."""
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wants}")
        archive.writestr(f"{about}/WHEEL", distribution.WHEEL.format(flambeau="0"))
        archive.writestr(f"{about}/RECORD", "")


def test_pip_keeps_it_when_others_ask_for_another(environment: Environment, tmp_path: Path) -> None:
    wheel(tmp_path, "torch", "2.14.0")
    for version, wanted in (("1.0", "2.13.0"), ("2.0", "2.14.0")):
        wheel(tmp_path, "viewer", version, f"Requires-Dist: torch=={wanted}\n")
    environment("-m", "flambeau_torch", "install-torch")
    index = ["install", "--no-index", "--find-links", tmp_path]
    answer = environment.pip(*index, "viewer==2.0")
    assert answer.returncode == 1 and f"The user requested (constraint) torch=={__version__}" in answer.stdout + answer.stderr
    for wanted in ("viewer", "--upgrade torch viewer"):
        answer = environment.pip(*index, *wanted.split())
        assert answer.returncode == 0, answer.stderr
        found = [line.split() for line in environment.pip("list").stdout.splitlines()]
        assert ["torch", __version__] in found and ["viewer", "1.0"] in found
    environment.pip("uninstall", "--yes", "torch", "viewer")
    assert "Would install torch-2.14.0 viewer-2.0" in environment.pip(*index, "--dry-run", "viewer").stdout


def test_programs_and_pip_are_told_the_version_that_was_chosen(environment: Environment, tmp_path: Path) -> None:
    answer = environment("-m", "flambeau_torch", "install-torch", "--version", "2.14.1")
    assert answer.returncode == 0 and "told 2.14.1, and have the API of 2.13.0" in answer.stdout, answer.stdout + answer.stderr
    told = __version__.replace("2.13.0", "2.14.1")
    line = "import torch, importlib.metadata as m; print(torch.__version__, torch.version.__version__, m.version('torch'))"
    for started in (["-c"], ["-m", "flambeau_torch", "run", "-c"]):
        assert environment(*started, line).stdout.split() == [told] * 3
    line_of_numbers = "import torch; print(torch.__version__ >= (2, 14), torch.torch_version.__version__)"
    assert environment("-c", line_of_numbers).stdout.split() == ["True", told]
    wheel(tmp_path, "newest", "1.0", "Requires-Dist: torch==2.14.1\n")
    answer = environment.pip("install", "--no-index", "--find-links", tmp_path, "newest")
    assert answer.returncode == 0 and "Requirement already satisfied: torch==2.14.1" in answer.stdout, answer.stderr
    environment.pip("uninstall", "--yes", "newest")
    refused = environment("-m", "flambeau_torch", "install-torch", "--version", "newest")
    assert refused.returncode == 1 and "'newest' is no release of PyTorch" in refused.stderr
    answer = environment("-m", "flambeau_torch", "install-torch")  # and back to the API's own
    assert answer.returncode == 0
    assert environment("-c", line).stdout.split() == [__version__] * 3


def test_settings_of_pip_that_are_somebody_elses_stay(environment: Environment) -> None:
    settings = environment.python.parent.parent / "pip.conf"
    own = "[global]\ntimeout = 7\n"
    try:
        settings.write_text(own)
        answer = environment("-m", "flambeau_torch", "install-torch")
        assert f"{settings} is yours and stays as it is" in answer.stdout and settings.read_text() == own
        environment("-m", "flambeau_torch", "uninstall-torch")
        assert settings.read_text() == own
        settings.unlink()  # ours, to which the user has added
        environment("-m", "flambeau_torch", "install-torch")
        settings.write_text(own + settings.read_text())
        environment("-m", "flambeau_torch", "uninstall-torch")
        assert settings.read_text() == own + "[install]\n"
    finally:
        settings.unlink()


def test_another_version_of_ours_is_replaced(environment: Environment) -> None:
    environment("-m", "flambeau_torch", "install-torch")
    (old,) = environment.packages.glob("torch-*.dist-info")
    (old / "METADATA").write_text((old / "METADATA").read_text().replace(__version__, "2.12.0+flambeau.0.0.9"))
    answer = environment("-m", "flambeau_torch", "install-torch")
    assert f"torch {__version__} is installed in" in answer.stdout
    source = "import importlib.metadata as m; print(m.version('torch'))"
    assert environment("-c", source).stdout == f"{__version__}\n"


def test_flambeau_is_gone(environment: Environment) -> None:
    environment("-m", "flambeau_torch", "install-torch")
    checkout = environment.packages / "checkout.pth"
    checkout.rename(checkout.with_suffix(".aside"))
    try:
        answer = environment("-c", "import torch")
    finally:
        checkout.with_suffix(".aside").rename(checkout)
    assert "ImportError: torch is provided by flambeau in this environment, and flambeau is gone: install it" in answer.stderr


# ---------------------------------------------------------------- refusals


def pytorch(folder: Path) -> None:
    """What an installation of PyTorch looks like from outside."""
    metadata = folder / "torch-2.13.0+cpu.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n")
    (folder / "torch").mkdir()


def test_pytorch_itself_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytorch(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(distribution.CannotInstall, match=r"PyTorch 2.13.0\+cpu is installed in .*; remove it first"):
        distribution.install(str(tmp_path))
    with pytest.raises(distribution.CannotInstall, match="is PyTorch itself: pip uninstall torch"):
        distribution.uninstall(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    # one that would be found before ours
    (other := tmp_path / "other").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(other)])
    with pytest.raises(distribution.CannotInstall, match=r"PyTorch 2.13.0\+cpu is installed in"):
        distribution.refuse_in(str(other))


def test_what_else_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(distribution, "site_packages", lambda: str(tmp_path))
    (tmp_path / "torch").mkdir()
    assert distribution.command("install-torch") == 1
    assert "torch is there and belongs to no installed distribution; move it away" in capsys.readouterr().err
    (tmp_path / "torch").rmdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        assert distribution.command("install-torch") == 1
    assert "is not writable; use a virtual environment" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(sys, "prefix", sys.base_prefix)
        patch.setattr(distribution.sysconfig, "get_path", lambda name: str(tmp_path))
        (tmp_path / "EXTERNALLY-MANAGED").write_text("")
        assert distribution.command("install-torch") == 1
    assert "the system's package manager manages this Python" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["EXTERNALLY-MANAGED"]


def test_flambeau_on_the_path_only_is_not_enough(empty: Environment, root: Path) -> None:
    checkout = empty.packages / "checkout.pth"
    checkout.rename(checkout.with_suffix(".aside"))
    try:
        answer = empty("-m", "flambeau_torch", "install-torch", PYTHONPATH=str(root))
    finally:
        checkout.with_suffix(".aside").rename(checkout)
    assert answer.returncode == 1 and "flambeau itself is not installed in this environment, only on the path" in answer.stderr
