"""How far Dagster's own configuration of pods reaches: bounds that only the cluster's administrators set."""

from pydantic import Field

from ft_resources.kubernetes.egress import Texts
from ft_resources.kubernetes.places import Tolerations
from ft_resources.strict_model import StrictModel


class FromDagster(StrictModel):
    """What `dagster-k8s/config` and Dagster's instance may add to workers' pods, beyond labels, sizes and plain
    variables. The objects are those of each tenant's namespace, and the admission policy admits the same."""

    environment: Texts = Field(
        (), description="Variables of Dagster's run launcher or code location that workers get too."
    )
    secrets: Texts = Field((), description="Secrets for variables and volumes.")
    config_maps: Texts = Field((), description="ConfigMaps for variables and volumes.")
    claims: Texts = Field((), description="PersistentVolumeClaims for volumes.")
    node_labels: dict[str, Texts] = Field(
        default_factory=dict, description="Labels of nodes with the values that may be selected."
    )
    tolerations: Tolerations = Field((), description="Taints of nodes that may be tolerated.")
