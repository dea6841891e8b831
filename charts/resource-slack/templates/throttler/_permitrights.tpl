{{/*
What lets pods start with backend configmap: a key of the pod's ConfigMap, a change of the pod for its kubelet, an Event.
A ClusterRole, or a Role in each of throttler.namespaces. Call with (dict "root" $ "name" NAME "account" ACCOUNT), and
"hook" for what is there for the time of `helm uninstall` only.
*/}}
{{- define "resource-slack.throttlerPermitRights" -}}
{{- $ := . -}}
{{- $labels := include "resource-slack.labels" (dict "root" .root "component" "throttler-controller") -}}
{{- $namespaces := .root.Values.throttler.namespaces | default (list "") -}}
{{- range $namespace := $namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "Role" "ClusterRole" (ne $namespace "") }}
metadata:
  name: {{ $.name | quote }}
  {{- with $namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with $.hook }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
rules:
  # Their names are pods' own, so they cannot be named here. Not read: only what has our label is changed.
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [create, patch]
  - apiGroups: [""]
    resources: [pods]
    verbs: [patch]
  {{- if $.hook }}
  - apiGroups: [""]
    resources: [pods]
    verbs: [list]
  {{- else }}
  - apiGroups: [""]
    resources: [events]
    verbs: [create, patch]
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne $namespace "") }}
metadata:
  name: {{ $.name | quote }}
  {{- with $namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with $.hook }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ ternary "Role" "ClusterRole" (ne $namespace "") }}, name: {{ $.name | quote }}}
subjects:
  - {kind: ServiceAccount, name: {{ $.account | quote }}, namespace: {{ $.root.Release.Namespace | quote }}}
{{- end }}
{{- end -}}
