"""torch.ao: architecture optimisation; see flambeau.ao.quantization."""
