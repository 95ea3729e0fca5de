"""Imports everything that chunks need and loads the kernels from numba's cache: the fork server starts with this."""

from importlib import import_module

import pyarrow as pa

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.engine.prepare import PrepareSettings, prepare
from ft_assets.workers.datasets.quality.language import detect_languages

# Forked processes do not need threads, and must not be forked from a process that has some.
pa.set_cpu_count(1)
pa.set_io_thread_count(1)
_ROW = b'{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello yourself"}]}\n'
prepare(
    _ROW,
    ended=True,
    settings=PrepareSettings(policy=DatasetPolicy().model_dump(mode="json"), index=None, suites=()),
)
detect_languages(pa.array(["A sentence that is long enough for its language to be looked at."]))
for name in ("items", "mistyped"):
    import_module(f"ft_assets.workers.datasets.similarity.{name}")
