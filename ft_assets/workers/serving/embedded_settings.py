"""The settings of the embedded server, which depend on this machine's packages and device."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import cast

from ft_assets.workers.serving.parity.settings import Dtype, ServerSettings

_PACKAGES = ("transformers", "peft", "torch")


def embedded_settings(base: Callable[[], Path]) -> ServerSettings:
    """The settings of a server started here. ``base`` fetches the base's folder, needed on a GPU only: see
    ``load_model``."""
    # Imported here: promotions need the settings, so the code location loads this file, and must not load numpy.
    import torch

    from ft_assets.workers.base_models.tensors import stored_dtype

    dtype = stored_dtype(base()) if torch.cuda.is_available() else "float32"
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return ServerSettings(engine=f"embedded, {packages}", dtype=cast(Dtype, dtype))
