"""What a function of single elements may give in a whole block, by bounds of its arguments."""
