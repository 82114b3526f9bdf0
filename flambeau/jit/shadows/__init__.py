"""Functions and forwards of this package, written in what a program may have.

The package's own are written for speed, in Python that no program can have; where a program calls one, what stands here
under its name
is compiled in its place. They are ordinary functions, and give the same.
"""
