"""What changes the meaning of a call: grad mode, autocast, overriding classes and modes, settings of the process."""
