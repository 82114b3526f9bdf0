"""torch._functorch: modules of PyTorch's function transforms that programs import from, beside their public face torch.func.

`make_functional` holds what only the package functorch offered; the others are faces of func. `functorch` is that package:
`import functorch` gives it where `import torch` means flambeau.
"""
