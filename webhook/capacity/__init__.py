"""Whether floors fit the hardware. Pure: no I/O, no clock, standard library only.

A *floor* is one ClusterQueue's or Cohort's nominalQuota of one accelerator resource in one ResourceFlavor. Amounts are
exact integers in billionths, and one resource is never added to another.
"""
