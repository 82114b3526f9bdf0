"""What an operator is: its declaration, its record, and the variants generated from it."""
