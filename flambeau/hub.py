"""torch.hub: files from URLs. Downloads go through urllib; code from repositories is not loaded."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
from typing import Any
from urllib.parse import urlparse

import flambeau as torch
from flambeau.core import absent as _absent

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_NO_CODE = (
    "flambeau doesn't run code of repositories from the network; clone the repository, import its entry point and load the "
    "weights with torch.hub.load_state_dict_from_url or torch.load"
)
list = _absent.function("hub.list", _NO_CODE)
help = _absent.function("hub.help", _NO_CODE)
_NAMED_HASH = re.compile(r"-([a-f0-9]*)\.")
_directory: str | None = None


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The result of the entry point `model` of the `hubconf.py` in a local folder (source="local").

    Raises NotImplementedError for repositories on GitHub, RuntimeError if there is no such entry point.
    """
    if source.lower() not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source.lower() == "github":
        raise NotImplementedError(f"torch.hub.load is not implemented in flambeau for source='github': {_NO_CODE}")
    import importlib.util

    path = os.path.join(repo_or_dir, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, repo_or_dir)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo_or_dir)
    entry = getattr(module, model, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return entry(
        *args,
        **{
            name: value
            for name, value in kwargs.items()
            if name not in ("trust_repo", "force_reload", "verbose", "skip_validation")
        },
    )


def get_dir() -> str:
    """The folder of downloaded files: set_dir's, or $TORCH_HOME/hub, or torch/hub in the user's cache folder."""
    if _directory is not None:
        return _directory
    home = os.getenv("TORCH_HOME", os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder of downloaded files."""
    global _directory
    _directory = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; it appears under its name only when it is complete.

    hash_prefix: what its SHA-256 in hexadecimal has to begin with. Raises URLError without network, RuntimeError for
    a wrong hash.
    """
    from urllib.request import Request, urlopen

    folder = os.path.dirname(os.path.expanduser(dst)) or "."
    digest = hashlib.sha256()
    with (
        urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source,
        tempfile.NamedTemporaryFile(dir=folder, delete=False) as file,
    ):
        try:
            while block := source.read(1 << 17):
                file.write(block)
                digest.update(block)
            file.close()
            if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
            shutil.move(file.name, dst)
        finally:
            if os.path.exists(file.name):
                os.remove(file.name)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """torch.load of a file at a URL, kept in `model_dir` (get_dir()/checkpoints) for the next time.

    check_hash: the name ends in -<hash>.ext, which the content must match. Raises URLError, with advice, when the file is not
    there yet and the network can't be reached.
    """
    from urllib.error import URLError

    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(model_dir, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        found = _NAMED_HASH.search(name) if check_hash else None
        try:
            download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
        except URLError as error:
            raise URLError(
                f"{error.reason}: {url} can't be reached; download it elsewhere and put it at {path}"
            ) from None
    return torch.load(path, map_location=map_location, weights_only=weights_only)
