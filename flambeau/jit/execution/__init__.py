"""Running graphs: Python functions made of their nodes, and what answers each operator."""
