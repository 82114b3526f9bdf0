"""Run by hand where PyTorch is installed: writes what it makes of programs.py to recorded.json."""

import json
import pathlib

import programs
import torch

if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("recorded.json")
    runs = {key: [float(f"{value:.9g}") for value in values] for key, values in programs.results(torch).items()}
    path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in runs.items()) + "\n}\n")
