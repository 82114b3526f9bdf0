"""Segments: runs of a program's calls that become graphs for a backend, by a run on tensors without data.

`tracer` sees the calls, `segment` holds them, `graphs` writes them as a graph, `become` puts what was computed into the tensors
that the program holds.
"""
