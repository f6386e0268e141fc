"""How fast reviews are answered, beside other servers and beside policies inside the API server: `benchmarks/run`."""
