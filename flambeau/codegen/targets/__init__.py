"""Targets: what plans are lowered for and run by (target.py), and how a plan finds its own."""
