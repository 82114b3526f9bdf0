"""Elements moved: copies, gathers, scatters, masks and triangles."""
