"""`floorkeeper plan`: floors beside the hardware, and changing them in an order that no step of which is denied."""
