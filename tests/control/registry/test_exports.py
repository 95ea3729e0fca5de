"""What a recipe may export, and that one without exports is what it was."""

import pytest
from pydantic import ValidationError

from ft_assets.settings.recipe.recipe import Recipe

PLAIN = {"key": "tiny.v1", "base": "hub:acme/tiny@main"}


def test_a_recipe_without_exports_is_stored_as_before_there_were_any() -> None:
    assert "exports" not in Recipe.model_validate(PLAIN).model_dump(mode="json")
    assert Recipe.model_validate({**PLAIN, "exports": ["merged"]}).model_dump(mode="json")["exports"] == ["merged"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exports": ["onnx"]}, "Input should be 'merged', 'gguf-q8_0'"),
        ({"exports": ["merged"], "variant": "full"}, "there is nothing to merge"),
        ({"exports": ["merged"], "gates": "none"}, "for the others there is ft export"),
    ],
)
def test_what_could_never_be_exported_is_refused_with_the_recipe(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Recipe.model_validate({**PLAIN, **changes})
