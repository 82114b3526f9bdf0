"""Files from URLs, and the folder where they are kept. Downloads go through urllib."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from typing import Any
from urllib.parse import urlparse

import flambeau as torch
from flambeau.base.whole_files import replacing
from flambeau.hub.progress import tqdm

__all__ = ["HASH_REGEX", "READ_DATA_CHUNK", "download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
#: The hash in a file's name, "resnet18-f37072fd.pth".
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_directory: str | None = None


def _get_torch_home() -> str:
    """The folder of what is kept between runs: $TORCH_HOME, or torch in the user's cache folder."""
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of downloaded files: set_dir's, or $TORCH_HOME/hub, or torch/hub in the user's cache folder."""
    if _directory is not None:
        return _directory
    return os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder of downloaded files."""
    global _directory
    _directory = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; it appears under its name only when it is complete, and nothing is left of one that doesn't get so far.

    hash_prefix: what its SHA-256 in hexadecimal has to begin with. Raises URLError without network, RuntimeError for
    a wrong hash.
    """
    from urllib.request import Request, urlopen

    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source, replacing(os.path.expanduser(dst)) as file:
        length = source.headers.get("Content-Length") if hasattr(source, "headers") else None
        with tqdm(total=int(length) if length else None, disable=not progress, unit="B", unit_scale=True) as bar:
            while block := source.read(READ_DATA_CHUNK):
                file.write(block)
                digest.update(block)
                bar.update(len(block))
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')


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
        found = HASH_REGEX.search(name) if check_hash else None
        try:
            download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
        except URLError as error:
            raise URLError(f"{error.reason}: {url} can't be reached; download it elsewhere and put it at {path}") from None
    return torch.load(path, map_location=map_location, weights_only=weights_only)
