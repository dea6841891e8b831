{{/*
The same as the webhook, judged by the API server itself: no server of ours that could be down. What it cannot do is
refuse a pod: dependencies that cannot be kept are held and told by the agent. A test holds what both give equal. Call
with (dict "root" $ "agentAuthority" BASE64).
*/}}
{{- define "resource-slack.throttlerAdmissionPolicy" -}}
{{- $t := .root.Values.throttler -}}
{{- $name := include "resource-slack.throttler" .root -}}
{{- $labels := include "resource-slack.labels" (dict "root" .root "component" "throttler-controller") -}}
{{- if not .agentAuthority -}}
{{- fail "throttler.tls.agentAuthority: is needed with throttler.injection=AdmissionPolicy: who signs the agents' certificate goes into every gate, and their Secret cannot be seen or has no ca.crt" -}}
{{- end -}}
{{- if ne $t.backend "file" -}}
{{- fail "throttler.injection: AdmissionPolicy goes with throttler.backend=file: API servers that have such policies by default, 1.36 and newer, take variables from files; use Webhook with backend configmap" -}}
{{- end -}}
{{- $version := ternary "v1" "v1beta1" (semverCompare ">=1.36-0" .root.Capabilities.KubeVersion.Version) -}}
{{- $gate := "Object.spec.initContainers" -}}
{{- $constant := dict
    "THROTTLER_AGENT_PORT" (toString $t.agent.port)
    "THROTTLER_AGENT_NAME" (include "resource-slack.throttlerAgentName" .root)
    "THROTTLER_AGENT_CA" (.agentAuthority | b64dec | trim)
    "THROTTLER_FAIL_OPEN_AFTER" (include "resource-slack.throttlerFailOpenSeconds" .root) -}}
{{- $given := dict "requests" dict "limits" dict -}}
{{- range $side := list "requests" "limits" -}}
{{- range $kind, $amount := index $t.gate.resources $side }}{{ $_ := set (index $given $side) $kind (toString $amount) }}{{ end -}}
{{- end -}}
{{- /* amounts of the gate, as entries of CEL maps: of a Guaranteed pod, of one of class BestEffort, of any other */ -}}
{{- $disk := dict "kind" "ephemeral-storage" "amount" "64Mi" -}}
{{- $limited := `variables.all.all(c, c.?resources.?limits[?%q].hasValue())` -}}
{{- $requested := `variables.all.all(c, c.?resources.?requests[?%q].hasValue() || c.?resources.?limits[?%[1]q].hasValue())` -}}
{{- $usuals := dict
    "requests" (list (dict "kind" "cpu" "amount" "10m") (dict "kind" "memory" "amount" "32Mi") (merge (dict "if" $requested) $disk))
    "limits" (list (dict "kind" "cpu" "amount" "100m" "if" $limited) (dict "kind" "memory" "amount" "32Mi" "if" $limited) (merge (dict "if" $limited) $disk)) -}}
{{- $usual := dict -}}
{{- $bestEffort := dict -}}
{{- range $side, $entries := $usuals -}}
{{- $mine := index $given $side -}}
{{- $other := index $given (ternary "limits" "requests" (eq $side "requests")) -}}
{{- $all := list -}}
{{- $few := list -}}
{{- range $kind, $amount := $mine -}}
{{- $all = append $all (printf "%q: %q" $kind $amount) -}}
{{- $few = append $few (printf "%q: %q" $kind $amount) -}}
{{- end -}}
{{- range $entry := $entries -}}
{{- if not (hasKey $mine $entry.kind) -}}
{{- $value := quote $entry.amount -}}
{{- with index $other $entry.kind -}}
{{- $value = printf "(quantity(%q).%s(quantity(%q)) ? %q : %q)" . (ternary "isLessThan" "isGreaterThan" (eq $side "requests")) $entry.amount . $entry.amount -}}
{{- end -}}
{{- if hasKey $entry "if" -}}
{{- $optional := printf "?%q: %s ? optional.of(%s) : optional.none()" $entry.kind (printf $entry.if $entry.kind) $value -}}
{{- $all = append $all $optional -}}
{{- if eq $entry.kind $disk.kind }}{{ $few = append $few $optional }}{{ end -}}
{{- else -}}
{{- $all = append $all (printf "%q: %s" $entry.kind $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $usual $side (join ", " $all) -}}
{{- $_ := set $bestEffort $side (join ", " $few) -}}
{{- end -}}
{{- $guaranteed := list -}}
{{- range $kind, $amount := merge dict $given.limits $given.requests (dict "cpu" "50m" "memory" "32Mi") -}}
{{- $guaranteed = append $guaranteed (printf "%q: %q" $kind $amount) -}}
{{- end -}}
{{- if not (or (hasKey $given.limits $disk.kind) (hasKey $given.requests $disk.kind)) -}}
{{- $guaranteed = append $guaranteed (printf "?%q: %s ? optional.of(%q) : optional.none()" $disk.kind (printf $limited $disk.kind) $disk.amount) -}}
{{- end -}}
{{- $guaranteedAmounts := join ", " $guaranteed -}}
apiVersion: admissionregistration.k8s.io/{{ $version }}
kind: MutatingAdmissionPolicy
metadata:
  name: {{ $name | quote }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: IfNeeded
  matchConstraints:
    matchPolicy: Equivalent
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ .root.Release.Namespace | quote }}]}
        {{- with $t.namespaces }}
        - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
        {{- end }}
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
  matchConditions: # who is never gated
    - name: not-annotated-false
      expression: "object.metadata.?annotations[?'throttler.resource-slack.io/enabled'].orValue('') != 'false'"
    - name: no-static-pod
      expression: "!object.metadata.?annotations[?'kubernetes.io/config.mirror'].hasValue()"
    - name: not-critical
      expression: "object.spec.?priorityClassName.orValue('') != 'system-node-critical'"
    - name: own-network
      expression: "!object.spec.?hostNetwork.orValue(false)"
    - name: linux
      expression: >-
        object.spec.?os.?name.orValue(object.spec.?nodeSelector[?'kubernetes.io/os'].orValue(
        object.spec.?nodeSelector[?'beta.kubernetes.io/os'].orValue('linux'))) == 'linux'
    - name: nodes-of-linux # unless one of the fields above says it already
      expression: >-
        object.spec.?os.?name.hasValue() ||
        ['kubernetes.io/os', 'beta.kubernetes.io/os'].exists(k, object.spec.?nodeSelector[?k].hasValue()) ||
        object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution
        .?nodeSelectorTerms.orValue([]).size() == 0 ||
        object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        .nodeSelectorTerms.exists(t, !t.?matchExpressions.orValue([]).exists(e,
        e.key in ['kubernetes.io/os', 'beta.kubernetes.io/os'] &&
        (e.operator == 'In' && !('linux' in e.?values.orValue([])) ||
        e.operator == 'NotIn' && 'linux' in e.?values.orValue([]))))
    - name: few-containers
      expression: "object.spec.containers.size() <= 256"
  variables:
    - name: wanted
      expression: >-
        object.metadata.?annotations[?'throttler.resource-slack.io/enabled'].orValue('') == 'true' ||
        namespaceObject.metadata.?labels[?'throttler.resource-slack.io/enabled'].orValue('') == 'true'
    - name: before
      expression: "object.spec.?initContainers.orValue([])"
    - name: gated
      expression: "variables.before.exists(c, c.name == 'throttler-gate')"
    - name: all
      expression: "object.spec.containers + variables.before"
    - name: names
      expression: "object.spec.containers.map(c, c.name).join(',')"
    - name: permit
      expression: "'RESOURCE_SLACK_START_PERMIT'"
    - name: envs
      expression: "lists.range(object.spec.containers.size())"
    - name: ports # that no container names
      expression: >-
        [7473, 7474, 7475, 7476, 7477, 7478, 7479, 7480, 7481, 7482].filter(p,
        !variables.all.exists(c, c.?ports.orValue([]).exists(q, q.containerPort == p)))
    - name: anyResources # that decide the pod's class; an amount of 0 does not
      expression: >-
        variables.all.exists(c, ['cpu', 'memory'].exists(k,
        quantity(string(c.?resources.?requests[?k].orValue('0'))).isGreaterThan(quantity('0')) ||
        quantity(string(c.?resources.?limits[?k].orValue('0'))).isGreaterThan(quantity('0'))))
    - name: guaranteed
      expression: >-
        variables.all.all(c, ['cpu', 'memory'].all(k, c.?resources.?limits[?k].hasValue() &&
        quantity(string(c.resources.limits[k])).isGreaterThan(quantity('0')) &&
        quantity(string(c.resources.limits[k])).compareTo(quantity(string(
        c.?resources.?requests[?k].orValue(c.resources.limits[k])))) == 0))
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: |-
          !variables.wanted || variables.gated || variables.ports.size() == 0 ? [] :
          (object.spec.?volumes.orValue([]).size() > 0 ? [] : [JSONPatch{op: "add", path: "/spec/volumes", value: []}]) +
          [JSONPatch{op: "add", path: "/spec/volumes/-",
            value: Object.spec.volumes{name: "throttler-permits", emptyDir: Object.spec.volumes.emptyDir{}}},
          JSONPatch{op: "add", path: "/spec/volumes/-",
            value: Object.spec.volumes{name: "throttler-token", projected: Object.spec.volumes.projected{sources: [
              Object.spec.volumes.projected.sources{
                serviceAccountToken: Object.spec.volumes.projected.sources.serviceAccountToken{
                  audience: "throttler", expirationSeconds: 3600, path: "token"}}]}}}] +
          (variables.before.size() > 0 ? [] : [JSONPatch{op: "add", path: "/spec/initContainers", value: []}]) +
          [JSONPatch{op: "add", path: "/spec/initContainers/0", value: {{ $gate }}{
            name: "throttler-gate",
            image: {{ include "resource-slack.image" .root | toJson }},
            imagePullPolicy: {{ .root.Values.image.pullPolicy | toJson }},
            restartPolicy: "Always",
            command: ["python", "-P", "-m", "slack_operator.throttler.gate"],
            env: [
              {{ $gate }}.env{name: "THROTTLER_AGENT_HOST", valueFrom: {{ $gate }}.env.valueFrom{
                fieldRef: {{ $gate }}.env.valueFrom.fieldRef{fieldPath: "status.hostIP"}}},
              {{- range $key, $value := $constant }}
              {{ $gate }}.env{name: {{ $key | toJson }}, value: {{ $value | toJson }}},
              {{- end }}
              {{ $gate }}.env{name: "THROTTLER_CONTAINERS", value: variables.names},
              {{ $gate }}.env{name: "THROTTLER_DOORBELL_PORT", value: string(variables.ports[0])}
            ],
            readinessProbe: {{ $gate }}.readinessProbe{
              httpGet: {{ $gate }}.readinessProbe.httpGet{path: "/", port: variables.ports[0]},
              periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1, successThreshold: 1},
            ?resources: has(object.spec.resources) ? optional.none() :
              variables.guaranteed ? optional.of({{ $gate }}.resources{
                requests: { {{- $guaranteedAmounts -}} }, limits: { {{- $guaranteedAmounts -}} }}) :
              !variables.anyResources ? optional.of({{ $gate }}.resources{
                requests: { {{- $bestEffort.requests -}} }, limits: { {{- $bestEffort.limits -}} }}) :
              optional.of({{ $gate }}.resources{
                requests: { {{- $usual.requests -}} }, limits: { {{- $usual.limits -}} }}),
            securityContext: {{ $gate }}.securityContext{
              allowPrivilegeEscalation: false,
              capabilities: {{ $gate }}.securityContext.capabilities{drop: ["ALL"]},
              readOnlyRootFilesystem: true,
              runAsNonRoot: true,
              seccompProfile: {{ $gate }}.securityContext.seccompProfile{type: "RuntimeDefault"},
              ?runAsUser: object.spec.?securityContext.?runAsUser.orValue(1) == 0 ? optional.of(65532) : optional.none()},
            volumeMounts: [
              {{ $gate }}.volumeMounts{name: "throttler-permits", mountPath: "/permits"},
              {{ $gate }}.volumeMounts{name: "throttler-token", mountPath: "/var/run/secrets/throttler", readOnly: true}]
          }}]
    - patchType: JSONPatch # a list of its own: a container that came after the gate is gated too
      jsonPatch:
        expression: |-
          !variables.wanted || !object.spec.?initContainers.orValue([]).exists(c, c.name == "throttler-gate") ? [] :
          variables.envs.filter(i, object.spec.containers[i].?env.orValue([]).size() == 0).map(i,
            JSONPatch{op: "add", path: "/spec/containers/" + string(i) + "/env", value: []}) +
          variables.envs.filter(i, !object.spec.containers[i].?env.orValue([]).exists(e, e.name == variables.permit)).map(i,
            JSONPatch{op: "add", path: "/spec/containers/" + string(i) + "/env/-",
              value: Object.spec.containers.env{name: variables.permit, valueFrom: Object.spec.containers.env.valueFrom{
                fileKeyRef: Object.spec.containers.env.valueFrom.fileKeyRef{volumeName: "throttler-permits",
                  path: object.spec.containers[i].name + ".env", key: "GO", optional: false}}}})
    - patchType: JSONPatch # a policy cannot refuse: who has a variable of this name gets one whose name cannot be
      jsonPatch:
        expression: |-
          !variables.wanted ? [] :
          variables.envs.filter(i, object.spec.containers[i].?env.orValue([]).exists(e,
            e.name == variables.permit && !e.?valueFrom.?fileKeyRef.hasValue() &&
            (e.?value.orValue("") != "" || e.?valueFrom.?fieldRef.hasValue() || e.?valueFrom.?resourceFieldRef.hasValue() ||
            e.?valueFrom.?configMapKeyRef.hasValue() || e.?valueFrom.?secretKeyRef.hasValue()))).map(i,
            JSONPatch{op: "add", path: "/spec/containers/" + string(i) + "/env/-", value: Object.spec.containers.env{
              name: variables.permit + "= is the throttler's own; leave it out"}})
    - patchType: JSONPatch # what a webhook that is built with an older API has lost of ours
      jsonPatch:
        expression: |-
          !variables.wanted || !variables.gated ? [] :
          lists.range(variables.before.size()).filter(i, variables.before[i].name == "throttler-gate" &&
            !variables.before[i].?restartPolicy.hasValue()).map(i,
            JSONPatch{op: "add", path: "/spec/initContainers/" + string(i) + "/restartPolicy", value: "Always"}) +
          variables.envs.map(i, lists.range(object.spec.containers[i].?env.orValue([]).size()).filter(k,
            object.spec.containers[i].env[k].name == variables.permit &&
            object.spec.containers[i].env[k].?value.orValue("") == "" &&
            !object.spec.containers[i].env[k].?valueFrom.?fileKeyRef.hasValue() &&
            !object.spec.containers[i].env[k].?valueFrom.?fieldRef.hasValue() &&
            !object.spec.containers[i].env[k].?valueFrom.?resourceFieldRef.hasValue() &&
            !object.spec.containers[i].env[k].?valueFrom.?configMapKeyRef.hasValue() &&
            !object.spec.containers[i].env[k].?valueFrom.?secretKeyRef.hasValue()).map(k,
            JSONPatch{op: "replace", path: "/spec/containers/" + string(i) + "/env/" + string(k),
              value: Object.spec.containers.env{name: variables.permit, valueFrom: Object.spec.containers.env.valueFrom{
                fileKeyRef: Object.spec.containers.env.valueFrom.fileKeyRef{volumeName: "throttler-permits",
                  path: object.spec.containers[i].name + ".env", key: "GO", optional: false}}}})).flatten()
    - patchType: JSONPatch # whom the gate asks for
      jsonPatch:
        expression: |-
          !variables.wanted || !variables.gated ? [] :
          lists.range(variables.before.size()).filter(i, variables.before[i].name == "throttler-gate").map(i,
            lists.range(variables.before[i].?env.orValue([]).size()).filter(k,
              variables.before[i].env[k].name == "THROTTLER_CONTAINERS" &&
              variables.before[i].env[k].?value.orValue("") != variables.names).map(k,
              JSONPatch{op: "replace",
                path: "/spec/initContainers/" + string(i) + "/env/" + string(k) + "/value", value: variables.names})).flatten()
---
apiVersion: admissionregistration.k8s.io/{{ $version }}
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ $name | quote }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  policyName: {{ $name | quote }}
{{- end -}}

{{/*
What all containers of a pod request of k, or their limits of it, with the gate i: a term of CEL. Call with the side.
*/}}
{{- define "resource-slack.throttlerPodSum" -}}
{{- $own := printf "filter(c, c.?resources.?%[1]s[?k].hasValue()).map(c, quantity(string(c.resources.%[1]s[k])).asApproximateFloat())" . -}}
[[object.spec.initContainers[i]].{{ $own }}.sum(), variables.own.{{ $own }}.sum(),
        ([0.0] + variables.first.{{ $own }}).max()].sum()
{{- end -}}

{{/*
Fits the gate into the LimitRanges of its pod's namespace, which the API server reads by itself: no account of ours may
read one. Least and greatest amounts, and the greatest ratio of limit to request. It counts for both ways of injection,
and comes after them: what has changed the pod has the API server ask again. Call with (dict "root" $ "version" VERSION).
*/}}
{{- define "resource-slack.throttlerLimitRanges" -}}
{{- $name := printf "%s-limit-ranges" (include "resource-slack.throttler" .root) -}}
{{- $labels := include "resource-slack.labels" (dict "root" .root "component" "throttler-controller") -}}
{{- $gate := "object.spec.initContainers[i].resources" -}}
apiVersion: admissionregistration.k8s.io/{{ .version }}
kind: MutatingAdmissionPolicy
metadata:
  name: {{ $name | quote }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: IfNeeded
  paramKind: {apiVersion: v1, kind: LimitRange}
  matchConstraints:
    matchPolicy: Equivalent
    {{- with .root.Values.throttler.namespaces }}
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
    {{- end }}
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
  variables:
    - name: gates
      expression: >-
        lists.range(object.spec.?initContainers.orValue([]).size()).filter(i,
        object.spec.initContainers[i].name == 'throttler-gate')
    - name: bounds
      expression: "params.spec.limits.filter(l, l.type == 'Container')"
    - name: own # containers that run beside the gate
      expression: >-
        object.spec.containers + object.spec.?initContainers.orValue([]).filter(c,
        c.?restartPolicy.orValue('') == 'Always' && c.name != 'throttler-gate')
    - name: first # containers that run before those, one after the other
      expression: "object.spec.?initContainers.orValue([]).filter(c, c.?restartPolicy.orValue('') != 'Always')"
    - name: tooLarge # whether the whole pod, by its greatest or by its own amounts, leaves the gate no space; read last
      expression: >-
        variables.gates.exists(i,
        params.spec.limits.exists(l, l.type == 'Pod' && l.?max.orValue({}).map(k, k).exists(k,
        {{- range $at, $side := list "requests" "limits" }}
        {{ if $at }}|| {{ end -}}
        (!object.spec.?resources.?{{ $side }}[?k].hasValue() &&
        {{ include "resource-slack.throttlerPodSum" $side }} > quantity(string(l.max[k])).asApproximateFloat() * 1.000000001)
        {{- end }})) ||
        ['cpu', 'memory'].exists(k, object.spec.?resources.?requests[?k].hasValue() &&
        {{ include "resource-slack.throttlerPodSum" "requests" }} >
        quantity(string(object.spec.resources.requests[k])).asApproximateFloat() * 1.000000001))
  mutations: # no condition of the policy: one that was not asked at first is not asked again
    {{- range $side := list "requests" "limits" }}
    - patchType: JSONPatch # what defaults gave the gate and it has no use for: devices, huge pages, amounts within a pod's own
      jsonPatch:
        expression: |-
          variables.gates.map(i, variables.bounds.map(l, {{ $gate }}.?{{ $side }}.orValue({}).map(k, k).filter(k,
            (object.spec.?resources.hasValue() && k in ["cpu", "memory"] || !(k in ["cpu", "memory", "ephemeral-storage"])) &&
            !l.?maxLimitRequestRatio[?k].hasValue() &&
            (l.?default[?k].hasValue() || l.?defaultRequest[?k].hasValue())).map(k,
            JSONPatch{op: "add", path: "/spec/initContainers/" + string(i) + "/resources/{{ $side }}/" + jsonpatch.escapeKey(k),
              value: string(l.?min[?k].orValue("0"))})).flatten()).flatten()
    {{- range $bound, $beyond := dict "min" "isLessThan" "max" "isGreaterThan" }}
    - patchType: JSONPatch
      jsonPatch:
        expression: |-
          variables.gates.map(i, variables.bounds.map(l, l.?{{ $bound }}.orValue({}).map(k, k).filter(k,
            object.spec.initContainers[i].?resources.?{{ $side }}[?k].hasValue() &&
            quantity(string({{ $gate }}.{{ $side }}[k])).{{ $beyond }}(quantity(string(l.{{ $bound }}[k])))).map(k,
            JSONPatch{op: "add", path: "/spec/initContainers/" + string(i) + "/resources/{{ $side }}/" + jsonpatch.escapeKey(k),
              value: string(l.{{ $bound }}[k])})).flatten()).flatten()
    {{- end }}
    {{- end }}
    - patchType: JSONPatch # the ratio of the whole pod holds if the gate's own does
      jsonPatch:
        expression: |-
          variables.gates.map(i, params.spec.limits.map(l, l.?maxLimitRequestRatio.orValue({}).map(k, k).filter(k,
            l.type in ["Container", "Pod"] &&
            object.spec.initContainers[i].?resources.?requests[?k].hasValue() &&
            object.spec.initContainers[i].?resources.?limits[?k].hasValue() &&
            quantity(string({{ $gate }}.limits[k])).asApproximateFloat() >
            quantity(string({{ $gate }}.requests[k])).asApproximateFloat() *
            quantity(string(l.maxLimitRequestRatio[k])).asApproximateFloat()).map(k,
            JSONPatch{op: "add", path: "/spec/initContainers/" + string(i) + "/resources/requests/" + jsonpatch.escapeKey(k),
              value: k == "cpu"
                ? string(int(quantity(string({{ $gate }}.limits[k])).asApproximateFloat() * 1000.0 /
                  quantity(string(l.maxLimitRequestRatio[k])).asApproximateFloat() + 0.999999)) + "m"
                : string(int(quantity(string({{ $gate }}.limits[k])).asApproximateFloat() /
                  quantity(string(l.maxLimitRequestRatio[k])).asApproximateFloat() + 0.999999))})).flatten()).flatten()
    - patchType: JSONPatch # a pod without its gate is better than a pod that is refused
      jsonPatch:
        expression: |-
          !variables.tooLarge ? [] :
          variables.gates.map(i, JSONPatch{op: "remove", path: "/spec/initContainers/" + string(i)}) +
          lists.range(object.spec.?volumes.orValue([]).size()).map(i, object.spec.volumes.size() - 1 - i).filter(i,
            object.spec.volumes[i].name in ["throttler-permits", "throttler-token"]).map(i,
            JSONPatch{op: "remove", path: "/spec/volumes/" + string(i)}) +
          lists.range(object.spec.containers.size()).map(i, lists.range(
            object.spec.containers[i].?env.orValue([]).size()).filter(k,
            object.spec.containers[i].env[k].name == "RESOURCE_SLACK_START_PERMIT").map(k,
            JSONPatch{op: "remove", path: "/spec/containers/" + string(i) + "/env/" + string(k)})).flatten() +
          (object.metadata.?annotations.hasValue() ? [] :
            [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]) +
          [JSONPatch{op: "add", path: "/metadata/annotations/throttler.resource-slack.io~1enabled", value: "false"},
          JSONPatch{op: "add", path: "/metadata/annotations/throttler.resource-slack.io~1not-gated",
            value: "LimitRange " + params.metadata.name + ": the pod as a whole has no space for the gate"}]
---
apiVersion: admissionregistration.k8s.io/{{ .version }}
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ $name | quote }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  policyName: {{ $name | quote }}
  paramRef: # those of the pod's own namespace
    selector: {}
    parameterNotFoundAction: Allow
{{- end -}}
