"""torch.utils.collect_env: what a bug report needs to know. `python -m flambeau.utils.collect_env`."""

from __future__ import annotations

import platform
import sys

import flambeau as torch


def get_pretty_env_info() -> str:
    """Versions, system and processor as text."""
    import numpy

    return "\n".join(
        [
            f"flambeau version: {torch.__version__}",
            "Is CUDA available: False",
            f"OS: {platform.platform()}",
            f"Python version: {sys.version.splitlines()[0]}",
            f"CPU: {platform.processor() or platform.machine()} ({torch.backends.cpu.get_cpu_capability()})",
            f"Threads: {torch.get_num_threads()}",
            f"numpy: {numpy.__version__}",
        ]
    )


def main() -> None:
    """Print the report."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
