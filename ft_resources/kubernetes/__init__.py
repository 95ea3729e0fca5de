"""Workers on a Kubernetes cluster: what is asked of its API, and what its answers mean. Pure but for ``api`` and
``watch``."""
