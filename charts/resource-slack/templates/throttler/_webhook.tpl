{{/*
The API server asks about pods of namespaces with the label, and about pods with the annotation. Ignore: a webhook that is
down lets pods start as they would without us. Call with (dict "root" $ "authority" BASE64).
*/}}
{{- define "resource-slack.throttlerWebhook" -}}
{{- $t := .root.Values.throttler -}}
{{- $name := include "resource-slack.throttler" .root -}}
{{- $managed := and $t.tls.certManager.enabled (not $t.tls.secretName) -}}
{{- if not (or $managed .authority) -}}
{{- fail (printf "throttler.tls.authority: is needed: the API server must know who signs the certificate in Secret %s, and the Secret cannot be seen or has no ca.crt" $t.tls.secretName) -}}
{{- end -}}
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: {{ $name | quote }}
  labels:
    {{- include "resource-slack.labels" (dict "root" .root "component" "throttler-controller") | nindent 4 }}
  {{- if $managed }}
  annotations:
    cert-manager.io/inject-ca-from: {{ printf "%s/%s" .root.Release.Namespace $name | quote }}
  {{- end }}
webhooks:
{{- range $which := list "namespaces" "pods" }}
  - name: {{ $which }}.throttler.resource-slack.io
    clientConfig:
      {{- if not $managed }}
      caBundle: {{ $.authority }}
      {{- end }}
      service: {name: {{ $name | quote }}, namespace: {{ $.root.Release.Namespace | quote }}, path: /mutate, port: 443}
    rules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ $.root.Release.Namespace | quote }}]}
        {{- with $t.namespaces }}
        - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
        {{- end }}
        - {key: throttler.resource-slack.io/enabled, operator: {{ ternary "In" "NotIn" (eq $which "namespaces") }}, values: ["true"]}
    matchConditions:
    {{- if eq $which "pods" }}
      - name: annotated
        expression: >-
          has(object.metadata.annotations) && 'throttler.resource-slack.io/enabled' in object.metadata.annotations &&
          object.metadata.annotations['throttler.resource-slack.io/enabled'] == 'true'
    {{- else }}
      - name: not-annotated-false
        expression: >-
          !has(object.metadata.annotations) || !('throttler.resource-slack.io/enabled' in object.metadata.annotations) ||
          object.metadata.annotations['throttler.resource-slack.io/enabled'] != 'false'
    {{- end }}
      - name: no-static-pod
        expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
    failurePolicy: Ignore
    matchPolicy: Equivalent
    reinvocationPolicy: IfNeeded # of a container that another webhook adds
    sideEffects: None
    timeoutSeconds: {{ $t.webhook.timeoutSeconds }}
    admissionReviewVersions: [v1]
{{- end }}
{{- end -}}
