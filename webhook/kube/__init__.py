"""What Kubernetes and Kueue objects mean. Pure: no I/O, no clock, standard library only."""
