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
{{- $given := $t.gate.resources -}}
{{- $guaranteed := merge dict (default dict $given.limits) (default dict $given.requests) (dict "cpu" "50m" "memory" "32Mi") -}}
{{- range $name, $amount := $guaranteed }}{{ $_ := set $guaranteed $name (toString $amount) }}{{ end -}}
{{- $requests := dict -}}
{{- range $name, $amount := $given.requests }}{{ $_ := set $requests $name (toString $amount) }}{{ end -}}
{{- $limits := dict -}}
{{- range $name, $amount := $given.limits }}{{ $_ := set $limits $name (toString $amount) }}{{ end -}}
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
      expression: "object.spec.?os.?name.orValue('linux') == 'linux'"
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
    - name: port # the first that no container names
      expression: >-
        [7473, 7474, 7475, 7476, 7477, 7478, 7479, 7480, 7481, 7482].filter(p,
        !variables.all.exists(c, c.?ports.orValue([]).exists(q, q.containerPort == p)))[0]
    - name: anyResources
      expression: >-
        variables.all.exists(c, c.?resources.?requests.orValue({}).size() + c.?resources.?limits.orValue({}).size() > 0)
    - name: guaranteed
      expression: >-
        variables.all.all(c, ['cpu', 'memory'].all(k, c.?resources.?limits[?k].hasValue() &&
        quantity(string(c.resources.limits[k])).compareTo(quantity(string(
        c.?resources.?requests[?k].orValue(c.resources.limits[k])))) == 0))
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: |-
          !variables.wanted || variables.gated ? [] :
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
              {{ $gate }}.env{name: "THROTTLER_DOORBELL_PORT", value: string(variables.port)}
            ],
            readinessProbe: {{ $gate }}.readinessProbe{
              httpGet: {{ $gate }}.readinessProbe.httpGet{path: "/", port: variables.port},
              periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1, successThreshold: 1},
            ?resources: has(object.spec.resources) ? optional.none() :
              variables.guaranteed
                ? optional.of({{ $gate }}.resources{requests: {{ toJson $guaranteed }}, limits: {{ toJson $guaranteed }}}) :
              {{- if or $requests $limits }}
              optional.of({{ $gate }}.resources{requests: {{ toJson $requests }}, limits: {{ toJson $limits }}}),
              {{- else }}
              !variables.anyResources ? optional.none() :
              optional.of({{ $gate }}.resources{requests: {"cpu": "10m", "memory": "32Mi"}, limits: {
                ?"cpu": variables.all.all(c, c.?resources.?limits[?"cpu"].hasValue()) ? optional.of("100m") : optional.none(),
                ?"memory": variables.all.all(c, c.?resources.?limits[?"memory"].hasValue())
                  ? optional.of("32Mi") : optional.none()}}),
              {{- end }}
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
          !variables.wanted ? [] :
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
    - name: kinds
      expression: "['cpu', 'memory']"
  mutations: # no condition of the policy: one that was not asked at first is not asked again
    {{- range $side := list "requests" "limits" }}
    {{- range $bound, $beyond := dict "min" "isLessThan" "max" "isGreaterThan" }}
    - patchType: JSONPatch
      jsonPatch:
        expression: |-
          variables.gates.map(i, variables.bounds.map(l, variables.kinds.filter(k, l.?{{ $bound }}[?k].hasValue() &&
            object.spec.initContainers[i].?resources.?{{ $side }}[?k].hasValue() &&
            quantity(string({{ $gate }}.{{ $side }}[k])).{{ $beyond }}(quantity(string(l.{{ $bound }}[k])))).map(k,
            JSONPatch{op: "add", path: "/spec/initContainers/" + string(i) + "/resources/{{ $side }}/" + k,
              value: string(l.{{ $bound }}[k])})).flatten()).flatten()
    {{- end }}
    {{- end }}
    - patchType: JSONPatch
      jsonPatch:
        expression: |-
          variables.gates.map(i, variables.bounds.map(l, variables.kinds.filter(k,
            l.?maxLimitRequestRatio[?k].hasValue() &&
            object.spec.initContainers[i].?resources.?requests[?k].hasValue() &&
            object.spec.initContainers[i].?resources.?limits[?k].hasValue() &&
            quantity(string({{ $gate }}.limits[k])).asApproximateFloat() >
            quantity(string({{ $gate }}.requests[k])).asApproximateFloat() *
            quantity(string(l.maxLimitRequestRatio[k])).asApproximateFloat()).map(k,
            JSONPatch{op: "add", path: "/spec/initContainers/" + string(i) + "/resources/requests/" + k,
              value: string({{ $gate }}.limits[k])})).flatten()).flatten()
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
