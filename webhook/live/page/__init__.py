"""A read-only page about floors, hardware and queues, on a plain HTTP port of its own."""
