"""A real control plane without containers, for tests: etcd, kube-apiserver, controllers, scheduler, kwok and Kueue, and
cert-manager for those who ask.

Every process listens on loopback only and belongs to one folder (see layout.Layout), so that several control planes
can live side by side and `down` can tell its own processes from everybody else's.
"""
