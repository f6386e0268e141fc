"""Floorkeeper keeps the invariants that make Kueue-based replica rebalancing safe."""

__version__ = "0.1.0"
