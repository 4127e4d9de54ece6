{{- /* Image of a component: (list $ "nodeGpu"). */ -}}
{{- define "tetris.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $image := index $images (index . 1) -}}
{{- with $image.registry | default $images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
tetris-{{ index . 1 | kebabcase -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $images.tag | default (index . 0).Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- /* Port of a URL. */ -}}
{{- define "tetris.port" -}}
{{- regexFind ":[0-9]+" . | trimPrefix ":" -}}
{{- end -}}

{{- /* A map as TOML: a line for each field, with inline tables. */ -}}
{{- define "tetris.toml" -}}
{{- range $key, $value := . }}
{{ toJson $key }} = {{ include "tetris.toml.value" $value }}
{{- end }}
{{- end -}}

{{- define "tetris.toml.value" -}}
{{- if kindIs "map" . -}}
{ {{- range $index, $key := keys . | sortAlpha }}{{ if $index }}, {{ end }}{{ toJson $key }} = {{ include "tetris.toml.value" (index $ $key) }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[{{- range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "tetris.toml.value" $item }}{{ end -}}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{- /* node.toml: that of the manifests, and the value `node.config` over it. */ -}}
{{- define "tetris.node.toml" -}}
{{- include "tetris.toml" (mustMergeOverwrite (include "tetris.node.defaults" . | fromYaml) (deepCopy .Values.node.config)) | trim -}}
{{- end -}}

{{- define "tetris.gateway.toml" -}}
{{- $config := mustMergeOverwrite (include "tetris.gateway.defaults" . | fromYaml) (deepCopy .Values.gateway.config) -}}
{{- if .Values.gateway.tls.enabled -}}
{{- $_ := set $config "tls" (dict "certificate" "/etc/tetris/tls/tls.crt" "key" "/etc/tetris/tls/tls.key") -}}
{{- end -}}
{{- include "tetris.toml" $config | trim -}}
{{- end -}}

{{- /* Annotations of pods that change with what the pods read at their start: (list $ "node"). Kustomize has hashes in names for that. */ -}}
{{- define "tetris.checksums" -}}
{{- $root := index . 0 -}}
{{- $file := printf "tetris.%s.toml" (index . 1) -}}
{{- if ne (index . 1) "scaler" }}
checksum/config: {{ include $file $root | sha256sum }}
{{- end }}
{{- if $root.Values.traces.enabled }}
checksum/traces: {{ toJson $root.Values.traces | sha256sum }}
{{- end }}
{{- end -}}
