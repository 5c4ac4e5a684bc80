{{/* The name of every object of this release. */}}
{{- define "hedgerow.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* By what the operator's pods are known. A Deployment cannot change it, so it holds nothing that may change. */}}
{{- define "hedgerow.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hedgerow.labels" -}}
{{ include "hedgerow.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The ServiceAccount that the operator runs as. */}}
{{- define "hedgerow.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "hedgerow.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "hedgerow.image" -}}
{{- $why := "image.repository: no image is published yet; build one with `make image`, push it to a registry that the cluster pulls from, and say where: --set image.repository=REGISTRY/hedgerow" -}}
{{- $repository := required $why .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/* The Lease of the leader. */}}
{{- define "hedgerow.lease" -}}
{{- .Values.leaderElection.lease | default (include "hedgerow.fullname" .) -}}
{{- end }}

{{/* What Pod Security `restricted` asks of a pod; the user is the image's, 65532, so that platforms may give another. */}}
{{- define "hedgerow.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "hedgerow.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The source that `helm test` names: the first. */}}
{{- define "hedgerow.test.source" -}}
{{- with .Values.sources }}{{ (first .).name }}{{ end -}}
{{- end }}

{{/* Where `helm test` puts its policy: in a namespace that is followed and may name that source. */}}
{{- define "hedgerow.test.namespace" -}}
{{- $followed := .Values.watchNamespaces -}}
{{- $allowed := list "*" -}}
{{- with .Values.sources }}{{ $allowed = (first .).namespaces }}{{ end -}}
{{- if has "*" $allowed }}{{ $allowed = $followed | default (list .Release.Namespace) }}{{ end -}}
{{- $both := list -}}
{{- range $allowed }}{{ if or (not $followed) (has . $followed) }}{{ $both = append $both . }}{{ end }}{{ end -}}
{{- .Values.test.namespace | default (first (concat $both $allowed)) -}}
{{- end }}
