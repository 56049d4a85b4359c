"""Normal forms that rules take apart and rebuild: sums, products, chains, indices."""
