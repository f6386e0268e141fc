"""`floorkeeper verify`: the guide's step 4, each assertion with its evidence."""
