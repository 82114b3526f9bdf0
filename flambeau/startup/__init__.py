"""A folder for the path of Python processes that a program starts; as_torch.py puts it there."""
