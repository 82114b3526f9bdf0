"""A distribution named torch: what makes `import torch` mean flambeau for every program of an environment.

It is one small package, whose `__init__.py` puts flambeau in its own place when something imports it (an interpreter that
never does is not slowed), and the metadata by which pip and importlib.metadata know that torch is there. `files` makes them;
`flambeau install-torch` writes them into site-packages, `write_wheel` into a wheel that pip installs.

Other packages ask for torch in versions of their own, often the newest, for which pip would replace this one by PyTorch. So
`install-torch` also writes a constraint and, where there is no such file, the environment's `pip.conf` that names it: pip then
takes releases that go with this torch, or says that there are none. Programs that ask for the version are told that of the API
that flambeau implements, unless another was chosen. Stands on `redirection` and the standard library.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .redirection import OURS, THEIRS, TOLD, folder_of_flambeau, versions

STUB = '''\
"""torch, as flambeau implements it. `flambeau uninstall-torch`, or `pip uninstall torch`, takes it back."""

{told}"{version}"

try:
    from flambeau_torch.redirection import replace_stub
except ModuleNotFoundError as missing:
    raise ImportError(
        "torch is provided by flambeau in this environment, and flambeau is gone: install it (pip install flambeau), or take "
        "this away (pip uninstall torch)"
    ) from missing

replace_stub()
'''

METADATA = """\
Metadata-Version: 2.1
Name: torch
Version: {version}
Summary: torch, as flambeau implements it: an independent implementation of PyTorch
License: BSD-3-Clause
Requires-Python: >=3.11
Requires-Dist: flambeau=={flambeau}

`import torch` means flambeau. This is not PyTorch, and not affiliated with the PyTorch project.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: flambeau {flambeau}
Root-Is-Purelib: true
Tag: py3-none-any
"""

CONSTRAINT = """\
# Written by `flambeau install-torch`, taken back by `flambeau uninstall-torch`: pip keeps the torch that flambeau provides.
torch=={version}
"""

PIP_CONF = """\
# Written by `flambeau install-torch`, taken back by `flambeau uninstall-torch`.
[install]
constraint = {constraint}
"""


class CannotInstall(Exception):
    """The environment can't be changed so; the message says why and what to do."""


def full_version(release: str | None = None) -> str:
    """The version of the distribution that answers for a release of PyTorch, by default the one whose API is implemented."""
    found = versions(folder_of_flambeau())
    if release is not None and not re.fullmatch(r"\d+\.\d+(\.\d+)?", release):
        raise CannotInstall(f"{release!r} is no release of PyTorch: give numbers, as in --version {found['PYTORCH']}")
    return f"{release or found['PYTORCH']}+{OURS}.{found['FLAMBEAU']}"


def files(version: str, installer: str | None = None, beside: dict[str, str] | None = None) -> dict[str, str]:
    """Path below site-packages -> content, of all that is installed. installer: who does so, where it isn't pip; beside: what
    else is.
    """
    about = {"version": version, "flambeau": versions(folder_of_flambeau())["FLAMBEAU"]}
    folder = f"{THEIRS}-{about['version']}.dist-info"
    made = {
        f"{THEIRS}/__init__.py": STUB.format(told=TOLD, **about),
        f"{folder}/METADATA": METADATA.format(**about),
        f"{folder}/WHEEL": WHEEL.format(**about),
        f"{folder}/top_level.txt": f"{THEIRS}\n",
        **(beside or {}),
    }
    if installer is not None:
        made[f"{folder}/INSTALLER"] = f"{installer}\n"
    return {**made, f"{folder}/RECORD": record(made, f"{folder}/RECORD")}


def constraint_file() -> str:
    """Where the constraint for this environment's pip is kept."""
    return os.path.join(sys.prefix, "flambeau-torch.txt")


def pip_conf() -> str:
    """The settings of this environment's pip, which are above those of a user."""
    return os.path.join(sys.prefix, "pip.ini" if os.name == "nt" else "pip.conf")


def constraints(version: str, folder: str) -> dict[str, str]:
    """Path below site-packages -> content, of what keeps pip from replacing torch; no pip.conf where there is another."""
    texts = {constraint_file(): CONSTRAINT.format(version=version), pip_conf(): PIP_CONF.format(constraint=constraint_file())}
    if os.path.exists(pip_conf()) and read("", pip_conf()) != texts[pip_conf()]:
        del texts[pip_conf()]
    return {os.path.relpath(path, folder): text for path, text in texts.items()}


def record(contents: dict[str, str], own: str) -> str:
    """The list of files, with their checksums and sizes, by which pip uninstalls."""
    lines = []
    for path, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text.encode())}\n")
    return "".join(lines) + f"{own},,\n"


def write_wheel(folder: str | Path) -> Path:
    """Write the wheel into `folder`; returns its path."""
    version = full_version()
    path = Path(folder) / f"{THEIRS}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files(version).items():
            entry = zipfile.ZipInfo(name)  # of a fixed date: the same sources make the same wheel
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return path


# ---------------------------------------------------------------- an environment


def site_packages() -> str:
    """Where this environment's packages are installed."""
    return sysconfig.get_path("purelib")


def torches(folder: str) -> Iterator[importlib.metadata.Distribution]:
    """The distributions named torch that are installed in a folder."""
    for found in importlib.metadata.distributions(path=[folder]):
        if (found.metadata["Name"] or "").lower() == THEIRS:
            yield found


def is_ours(distribution: importlib.metadata.Distribution) -> bool:
    return distribution.version.partition("+")[2].startswith(OURS)


def refuse_in(folder: str) -> None:
    """CannotInstall where torch must not be installed."""
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and os.path.exists(marker):
        raise CannotInstall(
            f"the system's package manager manages this Python ({marker}); make a virtual environment: python -m venv .venv"
        )
    # What stands further in front on the path would be imported in its place.
    front = sys.path[: sys.path.index(folder)] if folder in sys.path else []
    for place in [*front, folder]:
        for found in torches(place):
            if not is_ours(found):
                raise CannotInstall(
                    f"PyTorch {found.version} is installed in {place}; remove it first (pip uninstall torch), or use an "
                    "environment of its own. `flambeau run` needs neither"
                )
    if os.path.lexists(os.path.join(folder, THEIRS)) and not any(torches(folder)):
        raise CannotInstall(f"{os.path.join(folder, THEIRS)} is there and belongs to no installed distribution; move it away")
    if not os.access(folder, os.W_OK):
        raise CannotInstall(f"{folder} is not writable; use a virtual environment: python -m venv .venv")
    alone = [sys.executable, "-E", "-P", "-c", "import importlib.util as u; assert u.find_spec('flambeau')"]
    if subprocess.run(alone, stdin=subprocess.DEVNULL, capture_output=True).returncode:
        raise CannotInstall("flambeau itself is not installed in this environment, only on the path: pip install flambeau")


def install(folder: str, release: str | None = None) -> str:
    """Install torch into a folder of packages; returns what was done, in words. Raises CannotInstall, OSError.

    release: the release of PyTorch that programs and pip are told, where it isn't the one whose API flambeau implements.
    """
    version = full_version(release)
    refuse_in(folder)
    wanted = files(version, OURS, constraints(version, folder))
    present = next(torches(folder), None)
    if present is not None and all(read(folder, path) == text for path, text in wanted.items()):
        return f"torch {present.version} is already installed in {folder}"
    if present is not None:
        uninstall(folder)
    for path, text in wanted.items():
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
    implemented = versions(folder_of_flambeau())["PYTORCH"]
    other = "" if release in (None, implemented) else f"They are told {release}, and have the API of {implemented}.\n"
    return (
        f"torch {version} is installed in {folder}:\n"
        f"`import torch` means flambeau for every program of this environment, and pip takes torch for installed.\n{other}"
        f"{kept_by_pip(wanted, folder)}\n"
        "To take it back: flambeau uninstall-torch"
    )


def kept_by_pip(installed: dict[str, str], folder: str) -> str:
    """Whether pip keeps this torch when other packages ask for another, and else how to tell it."""
    if os.path.relpath(pip_conf(), folder) not in installed:
        return (
            f"{pip_conf()} is yours and stays as it is; so that pip doesn't replace this torch by PyTorch, add to its section "
            f"[install]: constraint = {constraint_file()}"
        )
    if "PIP_CONSTRAINT" in os.environ:
        return f"pip looks at PIP_CONSTRAINT alone; so that it keeps this torch, add {constraint_file()} to it"
    return f"pip keeps it, and takes releases of other packages that go with it ({pip_conf()})."


def read(folder: str, path: str) -> str | None:
    try:
        with open(os.path.join(folder, path), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def uninstall(folder: str) -> str:
    """Take back what `install`, or the wheel, has put into a folder; returns what was done. Raises CannotInstall, OSError."""
    found = next(torches(folder), None)
    if found is None:
        return f"torch is not installed in {folder}"
    if not is_ours(found):
        raise CannotInstall(f"torch {found.version} in {folder} is PyTorch itself: pip uninstall torch")
    if not os.access(folder, os.W_OK):
        raise CannotInstall(f"{folder} is not writable")
    version = found.version
    paths = [os.path.join(folder, str(path)) for path in found.files or ()]
    folders = sorted({os.path.dirname(path) for path in paths}, key=len, reverse=True)
    for path in paths:
        if os.path.normpath(path) != os.path.normpath(pip_conf()) or not changed_by_others(path):
            remove(path)
    for place in folders:
        cached = os.path.join(place, "__pycache__")
        if os.path.basename(place) == THEIRS and os.path.isdir(cached):
            for name in os.listdir(cached):
                remove(os.path.join(cached, name))
            os.rmdir(cached)
        if os.path.isdir(place) and not os.listdir(place):
            os.rmdir(place)
    return f"torch {version} is uninstalled from {folder}"


def changed_by_others(path: str) -> bool:
    """Whether a pip.conf has become somebody else's; it then stays, without what names the constraint."""
    text = read("", path)
    if text is None or text == PIP_CONF.format(constraint=constraint_file()):
        return False
    own = PIP_CONF.format(constraint=constraint_file()).splitlines()
    rest = [line for line in text.splitlines(keepends=True) if line.strip() not in (own[0], own[2])]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(rest)
    return True


def remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def command(name: str, release: str | None = None) -> int:
    """`flambeau install-torch [--version RELEASE]` or `flambeau uninstall-torch`; returns the exit status."""
    try:
        print(install(site_packages(), release) if name == "install-torch" else uninstall(site_packages()))
    except (CannotInstall, OSError) as error:
        print(f"flambeau {name}: {error}", file=sys.stderr)
        return 1
    return 0
