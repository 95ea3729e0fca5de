"""``dataset.yaml``: the policy of a dataset version, and its row forms."""
