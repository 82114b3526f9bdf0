"""Kernels of torchvision's own operators: boxes, pooled regions of interest, deformable convolution."""
