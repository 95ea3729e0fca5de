"""The page of the reference about model families, from the catalogue that the tests hold to."""

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.catalogue.families import FAMILIES


def models_page() -> str:
    """A table of families with the reason of each that is not packed."""
    lines = [
        "# Models",
        "",
        "A base is any causal language model that the installed Transformers has itself; a model that brings its own",
        "code is refused. Each family below is trained in the tests at tiny size, with LoRA and in full: with the",
        "losses of a plain loop over one document at a time, resumed to equal bytes, and its adapter loads in plain",
        "PEFT. Other families take the same way and are not tried.",
        "",
        f"Of {', '.join(f'`{kind}`' for kind in sorted(COMPOSITES))}, which also see, the",
        "[text part](../how-to/bases.md#a-vision-language-base) is trained, and the rest stays as it is. Other models",
        "with a vision or audio part are refused.",
        "",
        "Documents are packed where it is proved that they cannot see each other. Otherwise each has a row of its own",
        "([packing](../explanation/packs.md#packing-and-isolation)); `packing.mode` says so in a recipe.",
        "",
        "| `model_type` | documents run | because of |",
        "|---|---|---|",
    ]
    lines += [f"| `{kind}` | {'apart' if why else 'packed'} | {why or ''} |" for kind, why in sorted(FAMILIES.items())]
    return "\n".join([*lines, ""])
