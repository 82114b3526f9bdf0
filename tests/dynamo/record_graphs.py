"""Writes graphs_recorded.json: python tests/dynamo/record_graphs.py, with a Python that has PyTorch.

By program of graph_programs.py: its graphs and results under PyTorch. `test_recorded_graphs` reads the file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FILE = Path(__file__).with_name("graphs_recorded.json")


def main() -> None:
    """Write the file, a program per line."""
    os.environ["FLAMBEAU_TEST_IMPL"] = "torch"
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
    from graph_programs import PROGRAMS, record

    lines = [f"  {json.dumps(name)}: {json.dumps(record(name))}" for name in PROGRAMS]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
