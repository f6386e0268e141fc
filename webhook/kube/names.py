"""Names that Kubernetes, Kueue and Floorkeeper give to labels, annotations and objects."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
POD_SET_LABEL = "kueue.x-k8s.io/podset"
"""Kueue puts it on the pods of a Job, JobSet … that it has admitted; they need not have the owner's queue label."""

DEFAULT_LOCAL_QUEUE = "default"
"""The LocalQueue that Kueue puts on every unlabelled workload of a namespace that holds one."""

KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE_NAMESPACES = ("kueue-system", "openshift-kueue-operator")
"""Where Kueue's own ConfigMap is believed: anybody may write one of that name elsewhere."""

KUEUE_CONFIG_MAP = "kueue-manager-config"
KUEUE_CONFIG_KEY = "controller_manager_config.yaml"
PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"

VOLCANO_GROUP = "scheduling.volcano.sh"

RESOURCE_GROUP = "resource.k8s.io"
"""Of DRA: claims, their templates, and device classes."""

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""With the name of a DeviceClass behind it, the resource by which a container can request its devices."""

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On every ResourceClaim that was made from a template."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""On every namespace: the API server puts it there."""

MANAGED_LABEL = "floorkeeper.io/managed"
DEFAULT_QUEUE_ANNOTATION = "floorkeeper.io/default-queue"
MODE_ANNOTATION = "floorkeeper.io/mode"
ALLOW_DELETE_ANNOTATION = "floorkeeper.io/allow-delete"

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
