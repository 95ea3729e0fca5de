"""JSON schemas for editors (recipe or dataset): ``python -m ft_assets.settings.schema recipe``."""

import json
import sys

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.strict_model import StrictModel

MODELS: dict[str, type[StrictModel]] = {"recipe": Recipe, "dataset": DatasetPolicy}


def json_schema(name: str) -> str:
    """The schema of ``recipe`` or ``dataset`` as indented JSON text with a final newline."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **MODELS[name].model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(json_schema(sys.argv[1]), end="")
