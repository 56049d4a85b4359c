"""The symbolic array: its class, its shape, and the functions of each element."""
