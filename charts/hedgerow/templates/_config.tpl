{{/* The operator's configuration, as `hedgerow run --config` reads it. */}}
{{- define "hedgerow.config" -}}
{{- if not .Values.sources }}
{{- fail "sources: declare where Prometheus is, and whose policies may name it: --set 'sources[0].name=default,sources[0].url=http://prometheus.monitoring:9090,sources[0].namespaces={*}'" }}
{{- end }}
{{- $address := .Values.listen.address }}
{{- if contains ":" $address }}{{ $address = printf "[%s]" $address }}{{ end -}}
instance: {{ .Values.instance | default (include "hedgerow.fullname" .) }}
watchNamespaces: {{ toJson .Values.watchNamespaces }}
leaderElection:
  enabled: {{ .Values.leaderElection.enabled }}
  lease: {{ include "hedgerow.lease" . }}
listen:
  address: {{ printf "%s:%d" $address (int .Values.listen.port) | quote }}
  explain: {{ printf "127.0.0.1:%d" (int .Values.listen.explainPort) | quote }}
  {{- with int .Values.listen.statusPagePort }}
  statusPage: {{ printf "127.0.0.1:%d" . | quote }}
  {{- end }}
writesPerSecond: {{ int .Values.writesPerSecond }}
propagation: {{ .Values.propagation }}
nudge: {{ .Values.nudge }}
sources:
{{- range .Values.sources }}
- {{ include "hedgerow.source" . | nindent 2 | trim }}
{{- end }}
{{- end }}

{{/* One source: what was said, with the files in which its Secrets are mounted instead of their names. */}}
{{- define "hedgerow.source" -}}
{{- $folder := include "hedgerow.source.folder" . }}
{{- $source := omit . "ca" "authentication" }}
{{- if .ca }}{{ $_ := set $source "caFile" (printf "%s/ca.crt" $folder) }}{{ end }}
{{- with .authentication }}
{{- $ways := dict }}
{{- with .bearer }}{{ $_ := set $ways "bearer" (dict "tokenFile" (.tokenFile | default (printf "%s/token" $folder))) }}{{ end }}
{{- with .basic }}{{ $_ := set $ways "basic" (dict "username" .username "passwordFile" (printf "%s/password" $folder)) }}{{ end }}
{{- if .mtls }}{{ $_ := set $ways "mtls" (dict "certFile" (printf "%s/tls.crt" $folder) "keyFile" (printf "%s/tls.key" $folder)) }}{{ end }}
{{- $_ := set $source "authentication" $ways }}
{{- end }}
{{- toYaml $source }}
{{- end }}

{{- define "hedgerow.source.folder" -}}
/etc/hedgerow/sources/{{ .name }}
{{- end }}

{{/* What is mounted there, as the parts of a projected volume; nothing for a source that needs nothing. */}}
{{- define "hedgerow.source.files" -}}
{{- with .ca }}
{{- range $kind, $of := . }}
- {{ $kind }}:
    name: {{ $of.name }}
    items:
    - key: {{ $of.key | default "ca.crt" }}
      path: ca.crt
{{- end }}
{{- end }}
{{- with .authentication }}
{{- with .bearer }}{{ with .secret }}
- secret:
    name: {{ .name }}
    items:
    - key: {{ .key | default "token" }}
      path: token
{{- end }}{{ end }}
{{- with .basic }}
- secret:
    name: {{ .secret.name }}
    items:
    - key: {{ .secret.key | default "password" }}
      path: password
{{- end }}
{{- with .mtls }}
- secret:
    name: {{ .secret.name }}
    items:
    - key: {{ .secret.certKey | default "tls.crt" }}
      path: tls.crt
    - key: {{ .secret.keyKey | default "tls.key" }}
      path: tls.key
{{- end }}
{{- end }}
{{- end }}
