"""Every model type of Transformers' causal mapping is packed, runs apart, or is refused with a reason."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.catalogue.families import FAMILIES, KNOWN
from ft_assets.settings.catalogue.placed import PLACED as CATALOGUE
from ft_assets.settings.catalogue.refused import ENCODERS, REFUSED
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.leak_check import require_causal
from tests.workers.packs.corners import corners
from tests.workers.training.placed import PLACED, documents, losses_alone, refusal, sensitive


def test_every_kind_of_the_causal_mapping_is_packed_or_apart_or_refused_with_a_reason() -> None:
    assert set(CAUSAL) <= KNOWN.keys() | REFUSED.keys() | ENCODERS.keys()
    catalogues: list[Any] = [FAMILIES, CATALOGUE, REFUSED, ENCODERS]
    assert sum(map(len, catalogues)) == len({kind for each in catalogues for kind in each})
    assert all((REFUSED | ENCODERS).values())
    assert KNOWN.keys() >= COMPOSITES.keys()
    assert CATALOGUE.keys() == PLACED.keys()


@pytest.mark.training
@pytest.mark.parametrize("kind", corners(PLACED, [*PLACED][::3]))
@torch.no_grad()
def test_documents_run_as_the_catalogue_says_and_lose_what_each_loses_alone(kind: str, tmp_path: Path) -> None:
    family, batch = PLACED[kind], documents()
    family.config().save_pretrained(tmp_path)
    choice = choose(tmp_path)
    assert choice.mode == family.mode
    model, plain = sensitive(family, **choice.loading), sensitive(family, attn_implementation=own(choice.attention))
    plain.load_state_dict(model.state_dict())
    choice.prepare(model)
    torch.testing.assert_close(token_losses(model, batch), losses_alone(plain, batch), rtol=1e-5, atol=1e-5)
    require_causal(model, batch)


def own(attention: str | None) -> str | None:
    """The architecture's own attention: eager if SDPA would leave something out."""
    return "eager" if attention == "eager" else None


@pytest.mark.training
@pytest.mark.parametrize("kind", [*REFUSED, *ENCODERS])
def test_what_the_catalogue_refuses_is_refused_for_that_reason(kind: str, tmp_path: Path) -> None:
    said = str(refusal(kind, tmp_path))
    wanted = REFUSED.get(kind) or ("looks ahead" if "later" in ENCODERS[kind] else "an encoder with a decoder")
    assert wanted in said
