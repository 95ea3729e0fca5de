"""Processes that find only the packages of the control plane's image, as its lock names them."""

from tests.k8s.chart import K8S

ROOT = K8S.parent
LOCKED = {"PYTHONPATH": f"{ROOT / 'tests/k8s/locked'}:{ROOT}", "LOCKED_TO": str(K8S / "locks" / "control.txt")}
"""Their environment; what they start, such as workers, finds all packages again."""
