"""The passes of quantization on graphs: fuse, prepare, convert, lower. Stands on flambeau.fx; used by quantize_fx."""
