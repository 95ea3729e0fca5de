"""The file of models that tenants may fine-tune."""

from pathlib import Path

import pytest

from ft_assets.settings.models import load_models
from ft_resources.errors import BadRecipe

_FILE = "models: {{{name}: {{base: 'folder:./base', description: Colours.}}}}\n"


def test_a_models_file_that_was_changed_counts_from_its_next_reading(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(_FILE.format(name="tiny"))
    first = load_models(file)
    # As long as nothing was changed, nothing is parsed.
    assert load_models(file) is first
    file.write_text(_FILE.format(name="huge"))
    assert list(load_models(file).models) == ["huge"]
    file.write_text("models: {tiny: {base: 7}}\n")
    for _ in range(2):
        with pytest.raises(BadRecipe, match="base"):
            load_models(file)
