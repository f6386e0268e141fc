"""`floorkeeper check`: admission's verdicts on files, before anything reaches a cluster."""
