"""Where facts come from: folders of manifests, or a cluster that is watched."""
