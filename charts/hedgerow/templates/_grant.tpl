{{/*
Rules for what the operator does with policies: a ClusterRole, or with `watchNamespaces` a Role in each of them and nothing
for the whole cluster. Wants a dict: `root`, the chart's values; `part`, the end of the name; `rules`, as text.
*/}}
{{- define "hedgerow.grant" -}}
{{- $root := .root }}
{{- $name := printf "%s-%s" (include "hedgerow.fullname" $root) .part }}
{{- range $at, $namespace := $root.Values.watchNamespaces | default (list "") }}
{{- $kind := ternary "Role" "ClusterRole" (ne $namespace "") }}
{{- if $at }}
---
{{- end }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "hedgerow.labels" $root | nindent 4 }}
rules:
{{ $.rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "hedgerow.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
{{ include "hedgerow.subject" $root }}
{{- end }}
{{- end }}

{{/* The operator, as the subject of a binding. */}}
{{- define "hedgerow.subject" -}}
- kind: ServiceAccount
  name: {{ include "hedgerow.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
