"""The JSON schema of ``dataset.yaml``, for editors: ``python -m ft_assets.datasets.policy_schema``."""

import json

from ft_assets.datasets.policy import DatasetPolicy


def policy_schema() -> str:
    """The schema as indented JSON text with a final newline."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **DatasetPolicy.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(policy_schema(), end="")
