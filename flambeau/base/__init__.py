"""What every other room stands on: dtypes, devices, layouts, geometry, errors and switches (stdlib and NumPy only)."""
