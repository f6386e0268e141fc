"""The live door: commands that look at a running cluster, and walk an admin through changing it."""
