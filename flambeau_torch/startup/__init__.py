"""A folder for the path of Python processes that a program starts; redirection.py puts it there."""
