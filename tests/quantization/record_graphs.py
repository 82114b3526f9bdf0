"""Writes graphs_recorded.json: what PyTorch makes of the models and expressions of graph_models. Run it with a Python that has
PyTorch.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from graph_models import EXPRESSIONS, MODES, SETUP, graphs, models
from record_quantization import answers

if __name__ == "__main__":
    import torch
    import torch.ao.quantization.quantize_fx

    warnings.simplefilter("ignore")
    torch.backends.quantized.engine = "fbgemm"
    recorded = {f"{name} {mode}": graphs(torch, name, mode) for name in models(torch) for mode in MODES}
    operators = answers(torch, SETUP, EXPRESSIONS.strip().splitlines())
    place = Path(__file__).with_name("graphs_recorded.json")
    place.write_text(json.dumps({"graphs": recorded, "operators": operators}, indent=0) + "\n", encoding="utf-8")
