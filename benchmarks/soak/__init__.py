"""A steady stream of writes through a real API server, while all that can happen to a webhook happens."""
