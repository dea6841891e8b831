"""Every label, annotation and name on Kubernetes objects, declared once: ours, and the well-known ones that we read.

Ours are an interface. Placeholders are recognised by them after an upgrade, and a changed value replaces every one, so
values here never change. This module imports nothing: the audit agent reads it too.
"""

API_VERSION = "resource-slack.io/v1alpha1"
"""Of all kinds of ours."""
SLACK_POLICIES = "slackpolicies"
"""How SlackPolicies are called in paths."""
ACTIVATION_POOLS = "activationpools"
"""How ActivationPools are called in paths."""
DEFAULT_NAMESPACE = "resource-slack"
MANAGED_BY = "resource-slack"
FIELD_MANAGER = "resource-slack"
"""Of the operator's server-side apply."""
AUDIT_FIELD_MANAGER = "resource-slack-audit"
THROTTLER_FIELD_MANAGER = "resource-slack-throttler"
DEMAND_FIELD_MANAGER = "resource-slack-demand"
PRIORITY_CLASS = "resource-slack"
SUSPENDED_PRIORITY_CLASS = "resource-slack-makes-way"
"""A class that there is none of: a template that names it creates no pod. The operator writes it during a burst."""
CREATION_BLOCK = "resource-slack-brake"
"""The ResourceQuota that stops a controller which makes too many placeholders."""

# On what we make.
LABEL_PLACEHOLDER = "resource-slack.io/placeholder"
LABEL_POLICY = "resource-slack.io/policy"
LABEL_SHAPE = "resource-slack.io/shape"
LABEL_BUFFER = "resource-slack.io/buffer"
"""On a placeholder of a CapacityBuffer, in place of a policy's label: the buffer's uid."""
ANNOTATION_BUFFER = "resource-slack.io/buffer-name"
"""On its ReplicaSet: the buffer, as `shop/web`."""
ANNOTATION_BUFFER_CREATED = "resource-slack.io/buffer-created"
"""On a placeholder of a CapacityBuffer: when the buffer was created. Of equal chunks the older buffer's fit first."""
ANNOTATION_SERVED_BY = "resource-slack.io/served-by"
"""On the probe of CapacityBuffers: who serves them, and how that is known."""
LABEL_POOL = "resource-slack.io/pool"
"""On a pod of an ActivationPool: the pool's name."""
LABEL_POOL_REVISION = "resource-slack.io/pool-revision"
"""On such a pod: what it was made of."""
LABEL_CREATION = "resource-slack.io/creation"
"""On such a pod: the creation that made it, so that none is made twice."""
ANNOTATION_SUBJECT = "resource-slack.io/subject"
"""On such a pod: the queue that it takes from."""
ANNOTATION_RETIRED_SUBJECTS = "resource-slack.io/retired-subjects"
"""On such a pod: queues of its pool's former memories that it takes from too, with commas."""
LABEL_RESERVED_FOR = "resource-slack.io/reserved-for"
LABEL_HOLD = "resource-slack.io/hold"
"""On a placeholder pod: how it holds capacity. Bound ones lack it."""
UNBOUND = "Unbound"
"""Its value on pods that no scheduler binds; they are Pending on purpose."""
LABEL_RELEASE = "resource-slack.io/release"
"""On a node, or on a marker pod there: unbound placeholders hold no capacity there, so that the node can go."""
SOFT_TAINT = "resource-slack.io/slack"
"""Key of a taint with the effect PreferNoSchedule, on nodes whose free capacity unbound placeholders hold."""
LABEL_WARM = "resource-slack.io/warm"
"""On a pod that pulls an image before the pods that need it arrive."""
ANNOTATION_WHY_PENDING = "resource-slack.io/why-pending"
"""On an unbound placeholder: why it is Pending, for people."""
ANNOTATION_WHY_MARKER = "resource-slack.io/why"
"""On a marker pod or a warm pod: what it is for, for people."""
ANNOTATION_RESERVED_FOR = "resource-slack.io/reserved-for"
"""On an unbound placeholder that mirrors a workload: the workload, as `shop/deploy/api`."""
ANNOTATION_SPEC = "resource-slack.io/spec"
"""The shape as JSON, so that a restarted operator adopts the ReplicaSet."""
ANNOTATION_APPLIED = "resource-slack.io/applied"
"""A digest of what was applied."""
ANNOTATION_ROLE = "resource-slack.io/role"
ANNOTATION_RETIRING = "resource-slack.io/retiring"
"""Present while the shape is being given up."""
ANNOTATION_BUILT_IN_POLICY = "resource-slack.io/built-in-policy"
"""On the operator's lease: whether its leader keeps the built-in policy while there is no SlackPolicy."""
ANNOTATION_FORMER_LIMITS = "audit.resource-slack.io/former-limits"

# What users write on their workloads and pods.
ANNOTATION_RESERVE = "resource-slack.io/reserve"
ANNOTATION_EXCLUDE = "resource-slack.io/exclude"
ANNOTATION_LATENCY = "audit.resource-slack.io/latency"

# Well-known ones of pods.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""On every namespace: its name."""
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_TEMPLATE_HASH = "pod-template-hash"
LABELS_OF_ONE_POD = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
        "statefulset.kubernetes.io/pod-name",
    }
)
"""Labels that controllers give each pod, or each run, of a workload with another value."""
LABEL_POD_GROUP = "scheduling.x-k8s.io/pod-group"
"""Of the scheduler plugins' coscheduling, which lets a pod wait for the others of its gang before it is bound."""
# What the controllers of other projects write on pods, and name what a user has made.
LABEL_ROLLOUT_HASH = "rollouts-pod-template-hash"
"""Argo Rollouts': the end of the ReplicaSet's name, as `pod-template-hash` is of a Deployment's."""
LABEL_KNATIVE_SERVICE = "serving.knative.dev/service"
LABEL_JOB_SET = "jobset.sigs.k8s.io/jobset-name"
LABEL_LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
LABEL_SPARK_SCHEDULE = "sparkoperator.k8s.io/scheduled-app-name"
LABEL_SPARK_APPLICATION = "sparkoperator.k8s.io/app-name"
LABEL_RAY_ORIGIN = "ray.io/originated-from-cr-name"
"""Of a RayCluster that a RayService or RayJob made; KubeRay does not copy it to pods, other people's webhooks may."""
LABEL_RAY_SERVE = "ray.io/serve"
"""On pods of a RayService's RayCluster, and on no others."""
LABEL_DEPLOYMENT_CONFIG = "deploymentconfig"
"""OpenShift's: each rollout of a DeploymentConfig makes another ReplicationController."""
LABEL_RUNNER_SCALE_SET = "actions.github.com/scale-set-name"
"""GitHub's runners: each runs one job and has a name of its own."""
LABEL_TEKTON_PIPELINE = "tekton.dev/pipeline"
LABEL_TEKTON_TASK = "tekton.dev/task"
ANNOTATION_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ANNOTATION_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
ANNOTATION_SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
ANNOTATION_STATIC_POD = "kubernetes.io/config.mirror"
"""On the API server's copy of a static pod."""
ANNOTATION_DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
"""`true` on pods that a controller of its own keeps on each node (ExtendedDaemonSet, vCluster's DaemonSets)."""
ANNOTATION_CONFIG_HASH = "kubernetes.io/config.hash"
"""What the kubelet names a static pod's cgroup by."""

# By which injectors leave a pod alone: nothing is to be added to a placeholder.
LABELS_AGAINST_INJECTION = {
    "sidecar.istio.io/inject": "false",
    "kuma.io/sidecar-injection": "disabled",
    "admission.datadoghq.com/enabled": "false",
}
_OTEL_LANGUAGES = ("java", "nodejs", "python", "dotnet", "go", "apache-httpd", "nginx", "sdk")
ANNOTATIONS_AGAINST_INJECTION = {
    "sidecar.istio.io/inject": "false",  # up to Istio 1.9 it was an annotation
    "linkerd.io/inject": "disabled",
    "kuma.io/sidecar-injection": "disabled",
    "dapr.io/enabled": "false",
    "vault.hashicorp.com/agent-inject": "false",
    "consul.hashicorp.com/connect-inject": "false",
    "dynatrace.com/inject": "false",
    "sidecar.opentelemetry.io/inject": "false",
    **{f"instrumentation.opentelemetry.io/inject-{language}": "false" for language in _OTEL_LANGUAGES},
}
"""Kyverno, Gatekeeper and policies of one's own have none that holds in general: these leave our namespace out."""

# Well-known ones of nodes.
HOSTNAME = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
FORMER_ZONE = "failure-domain.beta.kubernetes.io/zone"
EKS_NODE_GROUP = "eks.amazonaws.com/nodegroup"
GKE_NODE_POOL = "cloud.google.com/gke-nodepool"
AKS_AGENT_POOL = "kubernetes.azure.com/agentpool"
KARPENTER_NODE_POOL = "karpenter.sh/nodepool"
NODE_GROUPS = (EKS_NODE_GROUP, GKE_NODE_POOL, AKS_AGENT_POOL, KARPENTER_NODE_POOL)
"""By which the clouds and Karpenter tell groups of nodes apart."""
