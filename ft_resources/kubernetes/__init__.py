"""Workers on a Kubernetes cluster: requests to its API, and the meaning of the answers. Pure except for ``api`` and
``watch``."""
