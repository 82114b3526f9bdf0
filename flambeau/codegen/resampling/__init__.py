"""Images at other sizes and places: weighted taps and their gradients."""
