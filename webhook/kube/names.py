"""Names that Kubernetes, Kueue and Floorkeeper give to labels, annotations and objects."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
DEFAULT_LOCAL_QUEUE = "default"
"""The LocalQueue that Kueue puts on every unlabelled workload of a namespace that holds one."""

KUEUE_GROUP = "kueue.x-k8s.io"

MANAGED_LABEL = "floorkeeper.io/managed"
DEFAULT_QUEUE_ANNOTATION = "floorkeeper.io/default-queue"
MODE_ANNOTATION = "floorkeeper.io/mode"

FIELD_QUEUE = ("metadata", "labels", QUEUE_LABEL)
"""Where the queue label is, in an object and in a pod template."""
