"""What is rewritten in loops and branches: fusion, code motion, recurrences, unrolling."""
