"""`floorkeeper release`: Deployments leave their queues, before these are deleted (guide, Cleanup)."""
