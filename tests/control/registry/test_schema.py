import json
from pathlib import Path

from ft_assets.settings.schema import json_schema

COMMITTED = Path(__file__).parents[3] / "docs" / "recipe.schema.json"


def test_the_committed_schema_is_current() -> None:
    assert COMMITTED.read_text() == json_schema("recipe"), (
        "run: python -m ft_assets.settings.schema recipe > docs/recipe.schema.json"
    )


def test_editors_learn_ranges_and_refuse_unknown_keys() -> None:
    schema = json.loads(json_schema("recipe"))
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["key", "base"]
    assert schema["$defs"]["LoraSettings"]["properties"]["rank"]["anyOf"][0]["maximum"] == 1024
