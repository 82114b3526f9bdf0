"""Capture: what a call of a Python function depends on, found by running an instrumented form of the function's own source.

`source` finds a function's syntax tree and believes it only if it compiles to the function's own instructions. `instrument`
makes of the tree a function that asks `recorder` for everything it takes from its surroundings: attributes, items, calls,
globals. The recorder runs the call as it is, and notes each look as a guard, which machine code checks before a later call;
what it doesn't know makes the call one that can't be skipped, never a wrong one. `builtins` says what functions written in C
read and give.
"""
