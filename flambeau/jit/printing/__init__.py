"""Graphs as text that can be compiled again: what `.code` shows and archives hold."""
