{{/* What the pods of all components have in common, so that each value means the same for each of them. */}}

{{/*
Where pods run: on Linux, unless the values name another system, and otherwise as the values say. Call with
(dict "root" $ "values" .Values.operator "component" "operator" "replicated" true).
*/}}
{{- define "resource-slack.placement" -}}
nodeSelector:
  {{- toYaml (merge dict (default dict .values.nodeSelector) (dict "kubernetes.io/os" "linux")) | nindent 2 }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .replicated }}
{{- $selector := dict "matchLabels" (include "resource-slack.selectorLabels" . | fromYaml) }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      {{- toYaml $selector | nindent 6 }}
  {{- range .values.topologySpreadConstraints }}
  - {{- toYaml (merge dict . (dict "labelSelector" $selector)) | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The network of a component's pods. Call with the component's values. */}}
{{- define "resource-slack.network" -}}
{{- if .hostNetwork }}
hostNetwork: true
{{- end }}
{{- with default (ternary "ClusterFirstWithHostNet" "" (default false .hostNetwork)) .dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The probes of a component's container, with the times of its values. Call with the component's `probes`. */}}
{{- define "resource-slack.probes" -}}
{{- range $kind, $path := dict "startup" "/healthz" "liveness" "/healthz" "readiness" "/readyz" }}
{{- if hasKey $ $kind }}
{{ $kind }}Probe:
  httpGet: {path: {{ $path }}, port: metrics}
  {{- with index $ $kind }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A PodDisruptionBudget. Call with (dict "root" $ "component" C "name" NAME "budget" .Values.scorer.podDisruptionBudget). */}}
{{- define "resource-slack.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "resource-slack.labels" (dict "root" .root "component" .component) | nindent 4 }}
spec:
  maxUnavailable: {{ .budget.maxUnavailable }} # never blocks the drain of a node
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "resource-slack.selectorLabels" (dict "root" .root "component" .component) | nindent 6 }}
{{- end -}}
