{{/*
The objects of a Kustomize folder of the chart, as a list under the key `objects`: its resources, then its ConfigMaps. What
Kustomize and this chart install is one text (docs/decisions/one-text-for-kustomize-and-helm.md).
Takes root, folder, and data: what replaces or adds to a ConfigMap's data, by its name.
*/}}
{{- define "ft.objects" -}}
{{- $found := list -}}
{{- $said := .root.Files.Get (printf "%s/kustomization.yaml" .folder) | fromYaml -}}
{{- range $file := $said.resources -}}
  {{- range $text := splitList "\n---\n" ($.root.Files.Get (printf "%s/%s" $.folder $file)) -}}
    {{- $found = append $found (fromYaml $text) -}}
  {{- end -}}
{{- end -}}
{{- range $made := $said.configMapGenerator -}}
  {{- $data := dict -}}
  {{- range $file := $made.envs -}}
    {{- range $line := splitList "\n" ($.root.Files.Get (printf "%s/%s" $.folder $file) | trim) -}}
      {{- $_ := set $data (splitn "=" 2 $line)._0 (splitn "=" 2 $line)._1 -}}
    {{- end -}}
  {{- end -}}
  {{- range $file := $made.files -}}
    {{- $_ := set $data (base $file) ($.root.Files.Get (printf "%s/%s" $.folder $file)) -}}
  {{- end -}}
  {{- $metadata := dict "name" $made.name -}}
  {{- with $made.namespace }}{{ $_ := set $metadata "namespace" . }}{{ end -}}
  {{- with $made.options }}{{ $_ := set $metadata "labels" .labels }}{{ end -}}
  {{- $map := dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata -}}
  {{- range $key, $value := get (default dict $.data) $made.name | default dict }}{{ $_ := set $data $key $value }}{{ end -}}
  {{- $_ := set $map "data" $data -}}
  {{- $found = append $found $map -}}
{{- end -}}
{{- $wide := list "Namespace" "ClusterRole" "ClusterRoleBinding" -}}
{{- $wide = concat $wide (list "ValidatingAdmissionPolicy" "ValidatingAdmissionPolicyBinding") -}}
{{- range $object := $found -}}
  {{- if and $said.namespace (not (has $object.kind $wide)) -}}
    {{- $_ := set $object.metadata "namespace" $said.namespace -}}
  {{- end -}}
{{- end -}}
{{- dict "objects" $found | toYaml -}}
{{- end -}}

{{/* REPOSITORY:TAG, where the repository ends with @sha256. */}}
{{- define "ft.image" -}}
{{ .repository }}:{{ .tag }}
{{- end -}}

{{/* The base of the Kustomize folder with this installation's values. */}}
{{- define "ft.platform" -}}
{{- $values := .Values -}}
{{- $settings := dict -}}
{{- range $name, $text := $values.settings -}}
  {{- with $text }}{{ $_ := set $settings (printf "%s.yaml" $name) . }}{{ end -}}
{{- end -}}
{{- $url := ternary (printf "https://%s" $values.ingress.host) "" $values.ingress.enabled -}}
{{- $environment := merge (dict) $values.environment (dict "FT_PUBLIC_URL" $url) -}}
{{- $api := dict "INGRESS_NETWORK" $values.api.ingressNetwork -}}
{{- $data := dict "ft-environment" $environment "ft-api" $api "ft-settings" $settings -}}
{{- $found := list -}}
{{- range $object := (include "ft.objects" (dict "root" . "folder" "base" "data" $data) | fromYaml).objects -}}
  {{- $name := $object.metadata.name -}}
  {{- if eq $object.kind "ServiceAccount" -}}
    {{- $_ := set $object.metadata "annotations" (get $values.accounts $name | default dict) -}}
  {{- else if eq $object.kind "Deployment" -}}
    {{- range $object.spec.template.spec.containers -}}
      {{- $_ := set . "image" (include "ft.image" $values.image) -}}
      {{- $_ := set . "imagePullPolicy" $values.image.pullPolicy -}}
    {{- end -}}
    {{- if eq $name "ft-api" -}}
      {{- $_ := set $object.spec "replicas" $values.api.replicas -}}
    {{- else -}}
      {{- $pages := first $object.spec.template.spec.containers -}}
      {{- with $values.pages.origin }}{{ $_ := set $pages "command" (append $pages.command (printf "--origin=%s" .)) }}{{ end -}}
      {{- $_ := set $pages "envFrom" (concat $pages.envFrom $values.pages.envFrom) -}}
    {{- end -}}
  {{- else if and (eq $object.kind "NetworkPolicy") (has $name (list "api" "dagster-pages")) -}}
    {{- with $values.ingress.from }}{{ $_ := set (first $object.spec.ingress) "from" . }}{{ end -}}
  {{- else if and (eq $object.kind "NetworkPolicy") (eq $name "outside") -}}
    {{- with $values.egress }}{{ $_ := set (first $object.spec.egress) "to" . }}{{ end -}}
    {{- $_ := set $object.spec "egress" (concat $object.spec.egress $values.egressRules) -}}
  {{- else if eq $object.kind "Ingress" -}}
    {{- $_ := set $object.metadata "annotations" (merge (dict) $values.ingress.annotations $object.metadata.annotations) -}}
    {{- $_ := set $object.spec "ingressClassName" $values.ingress.className -}}
    {{- $_ := set $object.spec "tls" (list (dict "hosts" (list $values.ingress.host) "secretName" $values.ingress.tlsSecret)) -}}
    {{- $_ := set (first $object.spec.rules) "host" $values.ingress.host -}}
  {{- end -}}
  {{- $off := or (eq $object.kind "Namespace") (and (eq $object.kind "Ingress") (not $values.ingress.enabled)) -}}
  {{- if not $off }}{{ $found = append $found $object }}{{ end -}}
{{- end -}}
{{- dict "objects" $found | toYaml -}}
{{- end -}}
