"""What is done to a graph after the emitter: variables become values, exits become conditions, what is known is worked out."""
