"""The tenants file: tiers and their limits."""

from pathlib import Path

import pytest

from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import UserError

TIERS = """
tiers:
  trial: {max_examples: 5000}
  large: {max_examples: null}
tenants:
  acme: {tier: trial}
  globex: {tier: large}
  umbrella: {}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "tenants.yaml"
    path.write_text(text)
    return path


def limits(path: Path, *tenants: str) -> list[int | None]:
    return [load_tenants(path).tier_of(tenant).max_examples for tenant in tenants]


def test_every_tenant_has_the_limit_of_its_tier(tmp_path: Path) -> None:
    path = write(tmp_path, TIERS)
    assert limits(path, "acme", "globex", "umbrella", "unnamed") == [5000, None, 1_000_000, 1_000_000]


def test_without_a_file_of_the_project_there_is_the_default_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FT_TENANTS", raising=False)
    (tmp_path / "dagster.yaml").touch()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert load_tenants().tier_of("acme").max_examples == 1_000_000
    write(tmp_path, TIERS)
    assert load_tenants().tier_of("acme").max_examples == 5000


def test_a_file_that_is_named_and_not_there_does_not_mean_no_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tennants.yaml"))
    with pytest.raises(UserError, match="the tenants file cannot be read") as caught:
        load_tenants()
    assert caught.value.where == str(tmp_path / "tennants.yaml")
    assert "FT_TENANTS" in caught.value.remedy


def test_the_default_tier_can_be_changed_for_all_who_name_none(tmp_path: Path) -> None:
    path = write(tmp_path, "tiers: {default: {max_examples: 7}}\ntenants: {acme: {}}\n")
    assert limits(path, "acme", "unnamed") == [7, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TIERS.replace("tier: trial", "tier: trail"), "there is no tier 'trail': did you mean 'trial'?"),
        (TIERS.replace("5000", "0"), "max_examples"),
        (TIERS.replace("5000", "many"), "max_examples"),
        (TIERS.replace("max_examples: 5000", "max_example: 5000"), "did you mean 'max_examples'?"),
    ],
)
def test_a_tier_that_means_nothing_is_refused_by_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        load_tenants(write(tmp_path, text))
    assert message in str(error.value)
    assert "tenants.yaml" in error.value.where


def test_a_file_that_is_not_text_is_refused_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_bytes(b"tenants:\n  caf\xe9: {}\n")
    with pytest.raises(UserError, match="not UTF-8") as caught:
        load_tenants(file)
    assert "line 2" in caught.value.where
