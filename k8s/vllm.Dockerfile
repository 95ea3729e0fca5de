# vLLM with the platform's plug-in, from the repository's root. BASE is vLLM's own image by its digest:
#   docker build -f k8s/vllm.Dockerfile --build-arg BASE=vllm/vllm-openai:v0.32.0@sha256:… .
ARG BASE
FROM ${BASE}
ARG BASE
RUN case "$BASE" in *@sha256:*) ;; *) \
      echo "The base image must be named by its digest: --build-arg BASE=vllm/vllm-openai:v0.32.0@sha256:…" >&2; exit 1;; esac
WORKDIR /app
COPY k8s/locks/platform.txt platform.txt
# Of the platform's packages only what the plug-in needs and vLLM lacks: the pins of both contradict each other.
RUN sed -n '/^obstore==/,/[^\\]$/p' platform.txt > obstore.txt && \
    python3 -m pip install --no-cache-dir --require-hashes --no-deps -r obstore.txt
COPY pyproject.toml README.md ./
COPY ft_assets ft_assets
COPY ft_resources ft_resources
COPY ft_sensors ft_sensors
RUN python3 -m pip install --no-cache-dir --no-deps --no-build-isolation . && \
    python3 -c 'import ft_assets.vllm_plugin, ft_assets.vllm_metrics'
USER 10001
ENTRYPOINT []
