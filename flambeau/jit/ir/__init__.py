"""What a compiled program is: graphs of nodes in blocks, the source ranges they come from, and their text."""
