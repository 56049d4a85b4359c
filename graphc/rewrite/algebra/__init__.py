"""Normal forms for rules: sums, products, factors, exponentials, chains, indices."""
