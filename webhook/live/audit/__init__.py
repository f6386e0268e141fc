"""`floorkeeper audit`: every rule over what stands in a live cluster, and whether the set-up itself can hold them."""
