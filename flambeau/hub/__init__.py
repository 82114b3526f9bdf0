"""torch.hub: files from URLs (`files`), and the entry points of repositories (`repositories`).

A repository's entry points are the functions of its hubconf.py. Local folders are loaded as they are; one on GitHub is
loaded from its copy in get_dir(), which has to be there: flambeau fetches no code.
"""

from __future__ import annotations

from flambeau.hub.files import (
    DEFAULT_CACHE_DIR,
    ENV_TORCH_HOME,
    ENV_XDG_CACHE_HOME,
    HASH_REGEX,
    READ_DATA_CHUNK,
    _get_torch_home,
    download_url_to_file,
    get_dir,
    load_state_dict_from_url,
    set_dir,
    urlparse,
)
from flambeau.hub.files import download_url_to_file as _download_url_to_file
from flambeau.hub.progress import _Faketqdm, tqdm
from flambeau.hub.repositories import (
    ENV_GITHUB_TOKEN,
    MODULE_HUBCONF,
    VAR_DEPENDENCY,
    _get_cache_or_reload,
    _import_module,
    _load_entry_from_hubconf,
    _load_local,
    _parse_repo_info,
    help,
    list,
    load,
)

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
