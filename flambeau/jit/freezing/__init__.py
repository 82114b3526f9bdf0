"""torch.jit.freeze: programs for inference, in which parameters and attributes are constants.

`entry` has what users call, `attributes` says which attributes a program changes and puts constants in the place of the others,
`folding` takes out what does nothing in evaluation and folds norms into the products in front of them.
"""
