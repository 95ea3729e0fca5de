"""What the checkpoint's page shows."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from ft_assets.checkpoints.assets import _metadata
from ft_assets.checkpoints.plots import loss_curve
from ft_resources.store import Store
from tests.checkpoints.conftest import publish

FACTS: dict[str, Any] = {
    "steps": 2,
    "train_loss": 1.25,
    "validation_loss": [[1, 2.0], [2, 1.5]],
    "tokens": 640,
    "seconds": 4.0,
    "tokens_per_s": 160.0,
    "resumed": [{"attempt": 1, "step": 1}],
}


def test_the_page_shows_the_curve_the_last_losses_and_what_was_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    (folder / "report").mkdir(parents=True)
    (folder / "report" / "loss.png").write_bytes(loss_curve([{"step": 1, "loss": 2.0}], "acme.books.v1"))
    artifact = publish(Store(str(tmp_path / "store")), folder, "checkpoint", "acme", FACTS)
    shown = {name: entry.value for name, entry in _metadata(artifact).items()}
    assert shown["loss_curve"].startswith("![training and validation loss](data:image/png;base64,iVBOR")
    assert (shown["train_loss"], shown["validation_loss"], shown["steps"]) == (1.25, 1.5, 2)
    assert shown["resumed"] == "after step 1 of attempt 1"


def test_declaring_the_asset_imports_no_torch() -> None:
    code = "import sys, ft_assets.checkpoints.assets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
