"""Run `make test`, or another target, under every Python that the package claims to run on.

    python tools/test_pythons.py [--pythons 3.12,3.14] [--targets demo,test] [--roots .roots] [make's variables, as WORKERS=1]

A Python is an interpreter of that version on the PATH or among pyenv's; the tests then run in this checkout, with an environment
of its own (.venv-3.12). Where there is none, it is that of a Debian release, in a directory with a whole small system, which
debootstrap makes under --roots (some 500 MB each, kept for the next time), and in which a copy of the checkout is tested: as on a
newcomer's machine. That needs root, debootstrap and a mirror of Debian. A Python for which there is neither is named, and counts
as one that failed. The claimed ones are the classifiers of pyproject.toml. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}  # of Debian, and the Python that each has
PACKAGES = "python3,python3-venv,make,git,ca-certificates"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# The mounts belong to a namespace of this command's own, and go with it.
ENTER = 'for place in proc sys dev; do mount --rbind "/$place" "$0/$place"; done; exec chroot "$0" "$@"'


class Missing(Exception):
    """Why a Python can't be had here."""


def claimed() -> list[str]:
    """The versions that pyproject.toml names."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [line.rpartition(" ")[2] for line in lines if line.startswith("Programming Language :: Python :: 3.")]


def interpreter(version: str) -> str | None:
    """A Python of that version that starts."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for path in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)):
        answer = path and subprocess.run([path, "-c", "import venv"], stdin=subprocess.DEVNULL, capture_output=True)
        if answer and answer.returncode == 0:
            return str(path)
    return None


def mirror() -> str:
    """Where this machine gets Debian's packages."""
    for path in sorted(Path("/etc/apt").glob("sources.list.d/*.sources")):
        for line in path.read_text().splitlines():
            if line.startswith("URIs:"):
                return line.split()[1]
    return "http://deb.debian.org/debian"


def make_root(version: str, roots: Path) -> Path:
    """The directory with a Debian release that has this Python, made where there is none."""
    if version not in RELEASES:
        raise Missing(f"no python{version} on the PATH or among pyenv's, and no release of Debian has it")
    root = roots / RELEASES[version]
    lacking = ["root's rights"] if os.geteuid() else []
    lacking += [name for name in ("debootstrap", "unshare", "chroot") if not shutil.which(name)]
    if lacking:
        raise Missing(
            f"no python{version} on the PATH or among pyenv's; to make a Debian {root.name}, which has it, "
            f"{' and '.join(lacking)} would be needed"
        )
    if not (root / ".ready").exists():
        script = Path("/usr/share/debootstrap/scripts", root.name)
        subprocess.run(
            [
                "debootstrap",
                "--variant=minbase",
                f"--include={PACKAGES}",
                root.name,
                str(root),
                mirror(),
                str(script if script.exists() else script.with_name("sid")),
            ],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        for path in (CERTIFICATES, "/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
            if Path(path).exists():
                shutil.copy(path, root / path[1:])
        (root / ".ready").touch()
    if not (root / "usr/bin" / f"python{version}").exists():
        raise Missing(f"Debian {root.name} has another Python than {version}")
    return root


def copy_to(folder: Path) -> None:
    """What git knows of this checkout, and what it would; an environment made there before stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith(".venv"):
            shutil.rmtree(path)
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def run(version: str, target: str, roots: Path, variables: list[str]) -> int:
    """make's exit status."""
    if python := interpreter(version):
        command = ["make", target, f"PYTHON={python}", f"VENV=.venv-{version}", *variables]
        print(f"==> Python {version}: {shlex.join(command)}", flush=True)
        return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    root = make_root(version, roots.resolve())
    copy_to(root / "srv/project")
    command = ["make", "-C", "/srv/project", target, f"PYTHON=python{version}", *variables]
    print(f"==> Python {version}, in {root}: {shlex.join(command)}", flush=True)
    environment = {
        "HOME": "/srv",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "TERM": os.environ.get("TERM", "dumb"),
        "PIP_CERT": CERTIFICATES,
        "SSL_CERT_FILE": CERTIFICATES,
    }
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", ENTER, str(root), *command], env=environment, stdin=subprocess.DEVNULL
    ).returncode


def main() -> int:
    """Runs all, then says how each ended; the exit status is 1 if any failed or couldn't be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default=",".join(claimed()))
    parser.add_argument("--targets", default="test")
    parser.add_argument("--roots", type=Path, default=ROOT / ".roots")
    parser.add_argument("variables", nargs="*")
    options = parser.parse_args()
    report, status = [], 0
    for version in options.pythons.split(","):
        for target in options.targets.split(","):
            begin = time.monotonic()
            try:
                code = run(version, target, options.roots, options.variables)
                how = f"failed with {code}" if code else "passed"
            except (Missing, subprocess.CalledProcessError) as error:
                code, how = 1, f"not run: {error}"
            status |= bool(code)
            report.append(f"Python {version}, make {target}: {how} ({time.monotonic() - begin:.0f} s)")
    print("\n".join(report))
    return status


if __name__ == "__main__":
    sys.exit(main())
