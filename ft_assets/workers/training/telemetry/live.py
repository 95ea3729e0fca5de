"""What a run tells while it runs: each step's figures beside the loss, alerts, and the page for Prometheus."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ft_assets.checkpoints.journal import Journal
from ft_assets.checkpoints.telemetry.alerts import Alarms
from ft_assets.checkpoints.telemetry.flops import Yardstick, make_yardstick
from ft_assets.checkpoints.telemetry.gpu import Cpu, Device, device_of
from ft_assets.checkpoints.telemetry.prometheus import MetricsPage, open_page
from ft_assets.packs.estimate.time import Work
from ft_assets.packs.format import Pack
from ft_resources.worker_context import WorkContext

if TYPE_CHECKING:
    import torch

    from ft_assets.checkpoints.ranks import Ranks
    from ft_assets.checkpoints.reader import StepBatches


class Telemetry:
    """Of one attempt; call ``end`` however it ends. The first rank alone reports, and what it knows of its node's."""

    def __init__(self, context: WorkContext, pack: Pack, journal: Journal) -> None:
        self._context, self._pack, self._journal = context, pack, journal
        self._device: Device = Cpu()
        # There once training has begun, on the rank that reports.
        self._yardstick: Yardstick | None = None
        self._alarms = Alarms()
        self._page: MetricsPage | None = None

    def begin(self, device: "torch.device", ranks: "Ranks") -> None:
        """Training begins, or goes on behind the journal's rows, whose alerts are told already."""
        # Ranks of other nodes have nobody to tell.
        folder = self._context.scratch / "gpu-samples" if ranks.rank == ranks.local and not ranks.alone else None
        if ranks.first or folder is not None:
            self._device = device_of(device.type, device.index, folder, local=ranks.local)
        if not ranks.first:
            return
        hardware = self._device.hardware
        yardstick = make_yardstick(self._context, hardware, ranks.world if hardware else 0)
        self._yardstick = yardstick
        self._alarms = Alarms(yardstick.expected_tokens_per_s(self._usual_work()))
        for row in self._journal.rows:
            self._alarms.look(row)
        self._journal.alerts = [alert.as_json() for alert in self._alarms.alerts]
        self._page = open_page(self._context.spec)

    def figures(self, read: "StepBatches", seconds: float) -> dict[str, Any]:
        """Columns for a step that has read so much in so many seconds."""
        if self._yardstick is None:
            return {}
        return {"mfu": self._yardstick.mfu(_work_of(read), seconds), **self._device.figures()}

    def show(self, row: Mapping[str, Any]) -> None:
        """A row is booked: look for alerts in it, and put it onto the page."""
        if self._yardstick is None:
            return
        for alert in self._alarms.look(row):
            self._journal.alerts.append(alert.as_json())
            print(f"alert: {alert}", flush=True)
        if self._page is not None:
            self._page.show({**row, "alerts": len(self._journal.alerts)})

    @property
    def alerts(self) -> list[str]:
        """All alerts of the run so far, for its progress line."""
        return [str(alert) for alert in self._alarms.alerts]

    def end(self) -> None:
        self._device.close()
        if self._page is not None:
            self._page.close()

    def _usual_work(self) -> Work:
        """An optimizer step's on average."""
        pack = self._pack
        batch = self._context.params["training"]["global_batch_size"]
        tokens = max(1, pack.tokens * batch // len(pack))
        learned, length = pack.learned_tokens / pack.tokens, pack.tokens / pack.documents
        return Work(tokens=tokens, steps=1, learned=learned, document_length=length)


def _work_of(read: "StepBatches") -> Work:
    """What a step has read; how long its documents are on average, this rank's stand for."""
    lengths = np.concatenate([np.diff(batch.boundaries.numpy()) for batch in read.batches]).astype(np.float64)
    return Work(
        tokens=read.tokens,
        steps=1,
        learned=read.whole.learned / max(read.tokens, 1),
        document_length=float(np.square(lengths).sum() / max(lengths.sum(), 1)),
    )
