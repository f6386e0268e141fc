"""What ./scripts/run does: it serves the example cluster, sends it the examples and shows what comes of them."""
