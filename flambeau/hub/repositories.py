"""Repositories with entry points: `list`, `help` and `load` of the functions in a hubconf.py. Stands on files."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from flambeau.hub.files import get_dir

__all__ = ["ENV_GITHUB_TOKEN", "MODULE_HUBCONF", "VAR_DEPENDENCY", "help", "list", "load"]

ENV_GITHUB_TOKEN = "GITHUB_TOKEN"
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"


def _parse_repo_info(github: str) -> tuple[str, str, str]:
    """(owner, name, branch) of "owner/name[:branch]"; without a branch, main or master, whichever has a copy here."""
    info, _, branch = github.partition(":")
    owner, name = info.split("/")
    if not branch:
        copies = [b for b in ("main", "master") if os.path.isdir(_copy(owner, name, b))]
        branch = copies[0] if copies else "main"
    return owner, name, branch


def _copy(owner: str, name: str, branch: str) -> str:
    return os.path.join(get_dir(), "_".join([owner, name, branch.replace("/", "_")]))


def _get_cache_or_reload(
    github: str, force_reload: bool, trust_repo: Any, calling_fn: str = "load", verbose: bool = True,
    skip_validation: bool = False,
) -> str:  # fmt: skip
    """The folder with the copy of a repository on GitHub. NotImplementedError, with advice, if there is none."""
    owner, name, branch = _parse_repo_info(github)
    folder = _copy(owner, name, branch)
    if force_reload or not os.path.isdir(folder):
        raise NotImplementedError(
            f"torch.hub.{calling_fn}: flambeau doesn't fetch code from the network. Put the repository there yourself, "
            f"`git clone -b {branch} https://github.com/{owner}/{name} {folder}`, and call again"
            + (" without force_reload" if force_reload else "")
        )
    if verbose:
        sys.stdout.write(f"Using cache found in {folder}\n")
    return folder


@contextlib.contextmanager
def _importing_from(folder: str) -> Iterator[None]:
    """A block in which imports look into the folder first."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _import_module(name: str, path: str) -> ModuleType:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_entry_from_hubconf(module: ModuleType, model: str) -> Callable[..., Any]:
    """The entry point of that name. RuntimeError if there is none, or if packages are missing that it needs."""
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [name for name in getattr(module, VAR_DEPENDENCY, None) or () if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def _load_local(hubconf_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
    """The result of an entry point of the folder's hubconf.py."""
    with _importing_from(hubconf_dir):
        module = _import_module(MODULE_HUBCONF, os.path.join(hubconf_dir, MODULE_HUBCONF))
        return _load_entry_from_hubconf(module, model)(*args, **kwargs)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check", verbose: bool = True
) -> Any:
    """The names of the entry points of a repository "owner/name[:branch]" that has a copy in get_dir()."""
    folder = _get_cache_or_reload(github, force_reload, trust_repo, "list", verbose, skip_validation)
    with _importing_from(folder):
        module = _import_module(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> str | None:
    """The docstring of an entry point of a repository "owner/name[:branch]" that has a copy in get_dir()."""
    folder = _get_cache_or_reload(github, force_reload, trust_repo, "help", True, skip_validation)
    with _importing_from(folder):
        module = _import_module(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))
    return _load_entry_from_hubconf(module, model).__doc__


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = "check", force_reload: bool = False,
    verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """The result of the entry point `model` of the hubconf.py in a local folder (source="local"), or in the copy that get_dir()
    has of a repository "owner/name[:branch]" on GitHub.

    Raises NotImplementedError for a repository that has no copy here, RuntimeError if there is no such entry point.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = _get_cache_or_reload(repo_or_dir, force_reload, trust_repo, "load", verbose, skip_validation)
    return _load_local(repo_or_dir, model, *args, **kwargs)
