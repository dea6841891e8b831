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

{{/* The operator's lease: one per namespace, whatever the release is called, so that two releases cannot act together. */}}
{{- define "resource-slack.leaseName" -}}
resource-slack
{{- end -}}

{{/* The lease of a companion's controller, for the same reason: one per namespace. */}}
{{- define "resource-slack.auditLeaseName" -}}
resource-slack-audit
{{- end -}}

{{- define "resource-slack.demandLeaseName" -}}
resource-slack-demand
{{- end -}}

{{- define "resource-slack.throttlerLeaseName" -}}
resource-slack-throttler
{{- end -}}

{{/*
"true" if the PriorityClass belongs to this release. One that is there without Helm's annotations was made by the operator,
or by a person: Helm would refuse to take it over, so it stays theirs, and the release works with it.
*/}}
{{- define "resource-slack.ownsPriorityClass" -}}
{{- $there := lookup "scheduling.k8s.io/v1" "PriorityClass" "" "resource-slack" -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" (default dict $there) -}}
{{- $namespace := dig "metadata" "annotations" "meta.helm.sh/release-namespace" "" (default dict $there) -}}
{{- $ours := and (eq $owner .Release.Name) (eq $namespace .Release.Namespace) -}}
{{- and .Values.priorityClass.create (or (not $there) $ours) -}}
{{- end -}}

{{/* Which components this release has, for the rules and dashboards of each: {"operator": true}. */}}
{{- define "resource-slack.components" -}}
{{- with .Values -}}
{{- dict "operator" .operator.enabled "audit" .audit.enabled "scorer" .scorer.enabled "load-watcher" .loadWatcher.enabled "throttler" .throttler.enabled "demand" .demand.enabled | toJson -}}
{{- end -}}
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

{{/*
All labels of an object: "more" in the dict, the user's for this object, win over commonLabels and ours, for nothing
selects such objects by ours. Of those for all objects none may be ours: pods are selected by these.
*/}}
{{- define "resource-slack.labels" -}}
{{- $own := include "resource-slack.ownLabels" . | fromYaml -}}
{{- $common := default dict .root.Values.commonLabels -}}
{{- range $label, $_ := $own -}}
{{- if hasKey $common $label -}}
{{- fail (printf "commonLabels: %s is the chart's own; leave it out (nameOverride and the release's name change it)" $label) -}}
{{- end -}}
{{- end -}}
{{- if or .more $common -}}
{{- toYaml (merge (deepCopy (default dict .more)) $common $own) -}}
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
resource-slack uninstall --yes --namespace {{ .Release.Namespace }} --lease-name {{ include "resource-slack.leaseName" . }}
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

{{/* The load watcher whose figures the web page shows: the one that is named, else this release's; "" for none. */}}
{{- define "resource-slack.webLoadWatcher" -}}
{{- if .Values.operator.web.enabled -}}
{{- if .Values.operator.web.loadWatcher -}}
{{ .Values.operator.web.loadWatcher }}
{{- else if .Values.loadWatcher.enabled -}}
http://{{ include "resource-slack.loadWatcher" . }}:2020
{{- end -}}
{{- end -}}
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

{{/*
Name of a pod's service account. Call with (dict "account" .Values.operator.serviceAccount "path" "operator" "own" NAME).
The account `default` is no answer: its rights would be those of every pod of the namespace that names none.
*/}}
{{- define "resource-slack.serviceAccount" -}}
{{- if and (not .account.create) (not .account.name) -}}
{{- fail (printf "%s.serviceAccount.name is needed: %s.serviceAccount.create is false, so name the account that is there" .path .path) -}}
{{- end -}}
{{- default .own .account.name -}}
{{- end -}}

{{- define "resource-slack.operatorAccount" -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.operator.serviceAccount "path" "operator" "own" (include "resource-slack.fullname" .)) -}}
{{- end -}}

{{/*
How the operator releases nodes: Label, MarkerPod or Off. It may never label nodes without the admission policy that
bounds this right, which Kubernetes has from 1.30 on; before, marker pods take its place. Call with (dict "root" $ "way"
.Values.operator.releaseNodes). Earlier charts had true and false, and YAML reads Off without quotes as false.
*/}}
{{- define "resource-slack.releaseNodes" -}}
{{- $old := semverCompare "<1.30-0" .root.Capabilities.KubeVersion.Version -}}
{{- $way := get (dict "true" "Label" "false" "Off") (toString .way) | default .way -}}
{{- if and (eq $way "Label") $old -}}MarkerPod{{- else -}}{{ $way }}{{- end -}}
{{- end -}}

{{/* Whether the operator patches nodes: to release them, or to taint those that hold unbound placeholders. */}}
{{- define "resource-slack.patchesNodes" -}}
{{- $way := include "resource-slack.releaseNodes" (dict "root" . "way" .Values.operator.releaseNodes) -}}
{{- if or (eq $way "Label") .Values.operator.softTaint.enabled -}}true{{- end -}}
{{- end -}}

{{- define "resource-slack.agentAccount" -}}
{{- $own := printf "%s-agent" (include "resource-slack.audit" .) -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.audit.agent.serviceAccount "path" "audit.agent" "own" $own) -}}
{{- end -}}

{{- define "resource-slack.controllerAccount" -}}
{{- $own := include "resource-slack.audit" . -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.audit.controller.serviceAccount "path" "audit.controller" "own" $own) -}}
{{- end -}}

{{/* A ServiceAccount, where the chart makes it. Call with (dict "root" $ "component" C "account" VALUES "name" NAME). */}}
{{- define "resource-slack.serviceAccountManifest" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "resource-slack.labels" (dict "root" .root "component" .component) | nindent 4 }}
  {{- with .account.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false # its pods ask for the token themselves
{{- end -}}

{{/*
Variables of the user's, below the chart's own. Of one name there may be one: server-side apply refuses two. Call with
(dict "extra" .Values.operator.extraEnv "path" "operator" "own" (list "POD_NAME")).
*/}}
{{- define "resource-slack.extraEnv" -}}
{{- range .extra -}}
{{- if has .name $.own -}}
{{- fail (printf "%s.extraEnv: %s is the chart's own; leave it out" $.path .name) -}}
{{- end -}}
{{- end -}}
{{- with .extra -}}
{{- toYaml . -}}
{{- end -}}
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

{{/* Name of all that is the scorer's, and its scheduler's; and of the load watcher's. */}}
{{- define "resource-slack.scorer" -}}
{{ include "resource-slack.fullname" . }}-scorer
{{- end -}}

{{- define "resource-slack.loadWatcher" -}}
{{ include "resource-slack.fullname" . }}-load
{{- end -}}

{{- define "resource-slack.scorerAccount" -}}
{{- $own := include "resource-slack.scorer" . -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.scorer.serviceAccount "path" "scorer" "own" $own) -}}
{{- end -}}

{{- define "resource-slack.loadWatcherAccount" -}}
{{- $own := include "resource-slack.loadWatcher" . -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.loadWatcher.serviceAccount "path" "loadWatcher" "own" $own) -}}
{{- end -}}

{{/* Labels of a companion's pods. Call with (dict "root" $ "component" C "path" PATH "more" .Values.PATH.podLabels). */}}
{{- define "resource-slack.componentPodLabels" -}}
{{- $own := dict "root" .root "component" .component -}}
{{- range $label, $_ := include "resource-slack.ownLabels" $own | fromYaml -}}
{{- if hasKey (default dict $.more) $label -}}
{{- fail (printf "%s.podLabels: %s is the chart's own; leave it out" $.path $label) -}}
{{- end -}}
{{- end -}}
{{- include "resource-slack.labels" (merge (dict "more" .more) $own) -}}
{{- end -}}

{{/* The stock scheduler, of the cluster's own version where no tag is given. */}}
{{- define "resource-slack.schedulerImage" -}}
{{- with .Values.scorer.scheduler.image -}}
{{ .repository }}:{{ default (regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" $.Capabilities.KubeVersion.Version) .tag }}
{{- end -}}
{{- end -}}

{{/* What `resource-slack scorer scheduler-config` prints for this scheduler; a test holds the two equal. */}}
{{- define "resource-slack.schedulerConfiguration" -}}
{{- $k := .Values.scorer.scheduler -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: {{ $k.clientQPS }}
  burst: {{ $k.clientBurst }}
leaderElection:
  leaderElect: true
  resourceName: {{ include "resource-slack.scorer" . | quote }}
  resourceNamespace: {{ .Release.Namespace | quote }}
{{- if $k.percentageOfNodesToScore }}
percentageOfNodesToScore: {{ $k.percentageOfNodesToScore }}
{{- end }}
profiles:
- schedulerName: {{ $k.name | quote }}
  plugins:
    score:
      disabled:
      - name: NodeResourcesFit
      - name: NodeResourcesBalancedAllocation
extenders:
- urlPrefix: http://127.0.0.1:8888
  prioritizeVerb: prioritize
  {{- if or .Values.scorer.filterAbove .Values.scorer.filterMemoryAbove }}
  filterVerb: filter
  preemptVerb: preempt
  {{- end }}
  weight: 1
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: {{ $k.httpTimeout }}
{{- end -}}

{{/* Name of all that is the throttler's; its agents are told apart by a word more. */}}
{{- define "resource-slack.throttler" -}}
{{ include "resource-slack.fullname" . }}-throttler
{{- end -}}

{{/* What the agents' certificate is for, whatever their nodes' addresses; gates ask for this name. */}}
{{- define "resource-slack.throttlerAgentName" -}}
agent.{{ include "resource-slack.throttler" . }}.{{ .Release.Namespace }}
{{- end -}}

{{- define "resource-slack.throttlerTls" -}}
{{ default (printf "%s-tls" (include "resource-slack.throttler" .)) .Values.throttler.tls.secretName }}
{{- end -}}

{{- define "resource-slack.throttlerAgentTls" -}}
{{ default (printf "%s-agent-tls" (include "resource-slack.throttler" .)) .Values.throttler.tls.agentSecretName }}
{{- end -}}

{{- define "resource-slack.throttlerAgentAccount" -}}
{{- $own := printf "%s-agent" (include "resource-slack.throttler" .) -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.throttler.agent.serviceAccount "path" "throttler.agent" "own" $own) -}}
{{- end -}}

{{- define "resource-slack.throttlerControllerAccount" -}}
{{- $own := include "resource-slack.throttler" . -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.throttler.controller.serviceAccount "path" "throttler.controller" "own" $own) -}}
{{- end -}}

{{/* Amounts of resources as a flag has them: cpu=10m,memory=32Mi. */}}
{{- define "resource-slack.amounts" -}}
{{- $parts := list -}}
{{- range $name, $amount := . -}}
{{- $parts = append $parts (printf "%s=%s" $name (toString $amount)) -}}
{{- end -}}
{{- join "," $parts -}}
{{- end -}}

{{/* A gate is told seconds. */}}
{{- define "resource-slack.throttlerFailOpenSeconds" -}}
{{- $text := .Values.throttler.failOpenAfter -}}
{{- $hours := regexFind "[0-9]+h" $text | trimSuffix "h" | int -}}
{{- $minutes := regexFind "[0-9]+m" $text | trimSuffix "m" | int -}}
{{- $seconds := regexFind "[0-9]+s" $text | trimSuffix "s" | int -}}
{{- add (mul $hours 3600) (mul $minutes 60) $seconds -}}
{{- end -}}

{{/* Name of all that is demand's. */}}
{{- define "resource-slack.demand" -}}
{{ include "resource-slack.fullname" . }}-demand
{{- end -}}

{{- define "resource-slack.demandAccount" -}}
{{- $own := include "resource-slack.demand" . -}}
{{- include "resource-slack.serviceAccount" (dict "account" .Values.demand.controller.serviceAccount "path" "demand.controller" "own" $own) -}}
{{- end -}}

{{/* What runs beside the users' containers in pods of pools: the release's image, where no other is named. */}}
{{- define "resource-slack.demandProxyImage" -}}
{{- default (include "resource-slack.image" .) .Values.demand.proxy.image -}}
{{- end -}}

{{/* Ports of the broker, by its address; several servers stand with commas between. */}}
{{- define "resource-slack.demandBrokerPorts" -}}
{{- $usual := 4222 -}}
{{- if regexMatch "^rediss?:" .Values.demand.broker.url -}}
{{- $usual = 6379 -}}
{{- else if hasPrefix "kafka:" .Values.demand.broker.url -}}
{{- $usual = 9092 -}}
{{- end -}}
{{- $ports := list -}}
{{- range splitList "," (regexReplaceAll "[?].*$" .Values.demand.broker.url "") -}}
{{- $host := regexReplaceAll "^[a-z+]+://" . "" | regexFind "^[^/]+" -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $host | trimPrefix ":" | default $usual | int) -}}
{{- end -}}
{{- toYaml (uniq $ports) -}}
{{- end -}}
