{{/*
Name of everything that is the operator's. The release `resource-slack` gives just that. A release's name may begin with
a digit and have dots, which names of Services and of the lease may not. Quoted wherever it stands alone, as every name
and label is: YAML takes 123 for a number and `true` for a truth value.
*/}}
{{- define "resource-slack.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := .Release.Name -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- else if not (contains $name .Release.Name) -}}
{{- $full = printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $full -}}
{{- $full = printf "slack-%s" $full -}}
{{- end -}}
{{- $full | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that never change: a Deployment's selector is immutable. Call with (dict "root" $ "component" "operator"). */}}
{{- define "resource-slack.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "resource-slack.ownLabels" -}}
{{ include "resource-slack.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* All labels of an object. "more" in the dict are the user's, which win: nothing selects such objects by ours. */}}
{{- define "resource-slack.labels" -}}
{{- if .more -}}
{{- toYaml (merge (deepCopy .more) (include "resource-slack.ownLabels" . | fromYaml)) -}}
{{- else -}}
{{- include "resource-slack.ownLabels" . -}}
{{- end -}}
{{- end -}}

{{/* Labels of the operator's pods. Ours cannot be another's there: selectors go by them. */}}
{{- define "resource-slack.podLabels" -}}
{{- $own := dict "root" $ "component" "operator" -}}
{{- range $label, $_ := include "resource-slack.ownLabels" $own | fromYaml -}}
{{- if hasKey (default dict $.Values.operator.podLabels) $label -}}
{{- fail (printf "operator.podLabels: %s is the chart's own; leave it out (nameOverride and the release's name change it)" $label) -}}
{{- end -}}
{{- end -}}
{{- include "resource-slack.labels" (merge (dict "more" .Values.operator.podLabels) $own) -}}
{{- end -}}

{{/* The command that takes away what the operator has made, as it is for this release. */}}
{{- define "resource-slack.uninstallCommand" -}}
resource-slack uninstall --yes --namespace {{ .Release.Namespace }} --lease-name {{ include "resource-slack.fullname" . }}
{{- end -}}

{{/* "true" where others than the pod itself reach the web page. */}}
{{- define "resource-slack.webIsOpen" -}}
{{- with .Values.operator.web -}}
{{- if and .enabled (not (regexMatch "^(127\\.[0-9]+\\.[0-9]+\\.[0-9]+|localhost|\\[::1\\]):" .listen)) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "resource-slack.webPort" -}}
{{ regexFind "[0-9]+$" .Values.operator.web.listen }}
{{- end -}}

{{- define "resource-slack.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Pod Security "restricted"; the image's user is 65532. */}}
{{- define "resource-slack.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "resource-slack.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Name of all that is the auditor's; its agents and its controller are told apart by a word more. */}}
{{- define "resource-slack.audit" -}}
{{ include "resource-slack.fullname" . }}-audit
{{- end -}}

{{/* Name of the Secret with the controller's certificate: the user's, or the one that the chart makes. */}}
{{- define "resource-slack.auditTls" -}}
{{ default (printf "%s-tls" (include "resource-slack.audit" .)) .Values.audit.tls.secretName }}
{{- end -}}

{{/* Labels of one of the auditor's pods. Call with (dict "root" $ "component" "audit-agent" "values" "agent"). */}}
{{- define "resource-slack.auditPodLabels" -}}
{{- $own := dict "root" .root "component" .component -}}
{{- $more := (index .root.Values.audit .values).podLabels -}}
{{- range $label, $_ := include "resource-slack.ownLabels" $own | fromYaml -}}
{{- if hasKey (default dict $more) $label -}}
{{- fail (printf "audit.%s.podLabels: %s is the chart's own; leave it out" $.values $label) -}}
{{- end -}}
{{- end -}}
{{- include "resource-slack.labels" (merge (dict "more" $more) $own) -}}
{{- end -}}
