import json
from pathlib import Path

from ft_assets.recipes.schema import recipe_schema

COMMITTED = Path(__file__).parents[2] / "docs" / "recipe.schema.json"


def test_the_committed_schema_is_current() -> None:
    assert COMMITTED.read_text() == recipe_schema(), "run: python -m ft_assets.recipes.schema > docs/recipe.schema.json"


def test_editors_learn_ranges_and_refuse_unknown_keys() -> None:
    schema = json.loads(recipe_schema())
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["key", "base"]
    assert schema["$defs"]["LoraSettings"]["properties"]["rank"]["anyOf"][0]["maximum"] == 1024
