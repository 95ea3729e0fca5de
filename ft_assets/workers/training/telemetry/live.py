"""Live telemetry of a run: per-step figures, alerts, and the Prometheus page."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.model_size.time import Work
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.training.journal import Journal
from ft_assets.workers.training.telemetry.alerts import Alarms, Leaving
from ft_assets.workers.training.telemetry.flops import Yardstick, make_yardstick
from ft_assets.workers.training.telemetry.gpu import Cpu, Gpu
from ft_assets.workers.training.telemetry.prometheus import MetricsPage, open_page
from ft_resources.worker_context import WorkContext

if TYPE_CHECKING:
    import torch

    from ft_assets.workers.training.ranks import Ranks
    from ft_assets.workers.training.reader import StepBatches


class Telemetry:
    """The telemetry of one attempt; call ``end`` however it ends. Only the first rank reports."""

    def __init__(self, context: WorkContext, pack: Pack, journal: Journal) -> None:
        self._context, self._pack, self._journal = context, pack, journal
        self._device = Cpu()
        self._ranks: Ranks | None = None
        # Set once training has begun, on the rank that reports.
        self._yardstick: Yardstick | None = None
        self._alarms = Alarms()
        self._page: MetricsPage | None = None

    def begin(self, device: "torch.device", ranks: "Ranks", last: int) -> None:
        """Training starts, or resumes after the journal's rows, whose alerts were already raised; ``last`` is the
        number of its last step."""
        self._ranks = ranks
        if device.type == "cuda":
            self._device = Gpu(device.index or 0, ranks)
        if not ranks.first:
            return
        hardware = self._device.hardware
        yardstick = make_yardstick(self._context, hardware, ranks.world if hardware else 0)
        self._yardstick = yardstick
        method, params = METHODS[self._context.params["method"]], self._context.params
        leaving = Leaving(last=last, beta=method.own_settings(params)["beta"]) if method.compares else None
        self._alarms = Alarms(yardstick.expected_tokens_per_s(self._usual_work()), leaving)
        for row in self._journal.rows:
            self._alarms.look(row)
        self._journal.alerts = [asdict(alert) for alert in self._alarms.alerts]
        # Only now, as rows of earlier attempts are from other machines.
        self._alarms.nodes = ranks.nodes
        self._page = open_page(self._context.spec)

    def figures(self, read: "StepBatches", seconds: float, own_s: float) -> dict[str, Any]:
        """Metric columns for a step, from what it read, how long it took, and how long this rank worked by itself.
        Every rank must ask for them."""
        own = self._device.figures()
        if self._ranks is not None and not self._ranks.alone:
            times = [each for (each,) in self._ranks.gathered([own_s])]
            own |= slowest(times)
            if self._page is not None:
                self._page.show_ranks(times, self._ranks.nodes)
        return {} if self._yardstick is None else {"mfu": self._yardstick.mfu(_work_of(read), seconds), **own}

    def show(self, row: Mapping[str, Any]) -> None:
        """A row was recorded: check it for alerts, and publish it."""
        if self._yardstick is None:
            return
        for alert in self._alarms.look(row):
            self._journal.alerts.append(asdict(alert))
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
        """The work of an average optimizer step."""
        pack = self._pack
        batch = self._context.params["training"]["global_batch_size"]
        tokens = max(1, pack.index.tokens * batch // len(pack))
        learned, length = pack.index.learned_tokens / pack.index.tokens, pack.index.tokens / pack.index.documents
        return Work(tokens=tokens, steps=1, learned=learned, document_length=length)


def slowest(times: Sequence[float]) -> dict[str, Any]:
    """Metric columns for the seconds of each rank: which one was slowest, its time, and the median of the others'."""
    rank = max(range(len(times)), key=times.__getitem__)
    others = statistics.median(each for other, each in enumerate(times) if other != rank)
    return {"slowest_rank": rank, "slowest_rank_s": round(times[rank], 4), "other_ranks_s": round(others, 4)}


def _work_of(read: "StepBatches") -> Work:
    """The work of a step; this rank's documents stand for the mean length of all."""
    lengths = np.concatenate([np.diff(batch.boundaries.numpy()) for batch in read.batches]).astype(np.float64)
    return Work(
        tokens=read.tokens,
        steps=1,
        learned=read.whole.learned / max(read.tokens, 1),
        document_length=float(np.square(lengths).sum() / max(lengths.sum(), 1)),
    )


class Meter:
    """Measures steps by the clock from now on; ``seconds`` of the last one count neither validation nor saves."""

    def __init__(self) -> None:
        self._stepped_at = self._began = time.monotonic()
        self._steps = 0
        self.seconds = 0.0

    def stepped(self, tokens: int, waited_s: float) -> dict[str, Any]:
        """A step of this many tokens is done; its figures as metric columns."""
        now = time.monotonic()
        self.seconds, self._stepped_at = max(now - self._stepped_at, 1e-9), now
        self._steps += 1
        return {"tokens_per_s": round(tokens / self.seconds, 1), "data_wait_s": round(waited_s, 4)}

    def set_aside(self, seconds: float) -> None:
        """Exclude this many seconds from the current step."""
        self._stepped_at += seconds

    def eta_s(self, steps: int) -> float:
        """Seconds for ``steps`` more steps at the current pace."""
        pace = (time.monotonic() - self._began) / max(self._steps, 1)
        return round(pace * steps, 1)
