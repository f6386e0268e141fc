"""Names that Kubernetes, Kueue and Floorkeeper give to labels, annotations and objects."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
DEFAULT_LOCAL_QUEUE = "default"
"""The LocalQueue that Kueue puts on every unlabelled workload of a namespace that holds one."""

KUEUE_GROUP = "kueue.x-k8s.io"

MANAGED_LABEL = "floorkeeper.io/managed"
DEFAULT_QUEUE_ANNOTATION = "floorkeeper.io/default-queue"
MODE_ANNOTATION = "floorkeeper.io/mode"

SYSTEM_NAMESPACES = (
    "cert-manager",
    "floorkeeper-system",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "kueue-system",
    "openshift-kueue-operator",
)
"""Never managed, whatever their labels say: while we are down, what could bring us back must start without us."""

FIELD_QUEUE = ("metadata", "labels", QUEUE_LABEL)
"""Where the queue label is, in an object and in a pod template."""
