"""torch.utils: the rooms beside the tensor library. Programs import them by name, such as flambeau.utils.data."""
