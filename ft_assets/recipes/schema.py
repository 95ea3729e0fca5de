"""The recipe's JSON schema, for editors: ``python -m ft_assets.recipes.schema > docs/recipe.schema.json``."""

import json

from ft_assets.recipes.models import Recipe


def recipe_schema() -> str:
    """The schema as indented JSON text with a final newline."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(recipe_schema(), end="")
