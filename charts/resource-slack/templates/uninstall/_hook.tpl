{{/* Annotations of everything that helm makes for the time of `helm uninstall` only. Call with the weight. */}}
{{- define "resource-slack.uninstallHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- define "resource-slack.uninstallName" -}}
{{ include "resource-slack.fullname" . }}-uninstall
{{- end -}}
