"""A small Kubernetes: an API server over HTTP, the controllers a Job meets, and nodes that really run pods.

What it is held to: events recorded from a real API server (``test_recordings.py``). What it is NOT: images are not
pulled or entered (a command runs in this machine's file system, mounts are folders, see ``containers.py``), security
contexts and network policies are accepted and not enforced, there is no paging, apply, exec, RBAC beyond a token's
namespaces, ResourceQuota but of the number of Jobs, backoffLimitPerIndex, successPolicy or restart of a container in
place.
"""
