"""What torch.ao.quantization.observer shows: what observers have in common, ranges, histograms, and those that find no range."""
