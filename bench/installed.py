"""How much disk distributions take, and what they require, by distribution: `python bench/installed.py NAME...`.

Bytes of the Python that runs it, compiled Python files left out, as JSON. Used by the benchmark and the demonstrations.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path


def installed_sizes(*names: str) -> dict[str, int]:
    """Bytes on disk of distributions and of all that they require, by name."""
    found: dict[str, int] = {}
    for name in names:
        add(name, found)
    return found


def add(name: str, found: dict[str, int]) -> None:
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
    spec = importlib.util.find_spec("flambeau") if name == "flambeau" else None
    if spec is not None and spec.origin and Path(spec.origin) not in paths:
        paths = list(Path(spec.origin).parent.rglob("*"))  # an editable install lists no files of the package
    found[name] = sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file())
    for requirement in distribution.requires or []:
        if applies(requirement):
            add(re.split(r"[ ;<>=!~\[(]", requirement)[0], found)


def applies(requirement: str) -> bool:
    """Whether a requirement is one of this environment, and not of an extra."""
    return "extra ==" not in requirement


if __name__ == "__main__":
    print(json.dumps(installed_sizes(*sys.argv[1:])))
