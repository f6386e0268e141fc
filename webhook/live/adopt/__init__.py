"""`floorkeeper adopt`: Deployments that serve join their queues (guide, step 3)."""
