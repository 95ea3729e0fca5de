"""Plots are drawn from any rows."""

import struct

from ft_assets.workers.training.telemetry.report import _trend, loss_curve, loss_figure, throughput_curve


def test_the_curve_is_a_png_of_a_readable_size_with_and_without_validation() -> None:
    rows = [{"step": step, "loss": 5 / step} for step in range(1, 40)]
    for shown in (rows, [*rows, {"step": 39, "validation_loss": 0.4}], []):
        picture = loss_curve(shown, "acme.books.v1 | tiny.v1")
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert width >= 700
        assert height >= 400


def test_the_legend_is_above_the_curves_and_below_the_title() -> None:
    rows = [{"step": step, "loss": 5.0} for step in range(1, 40)]
    figure = loss_figure([*rows, {"step": 39, "validation_loss": 0.4}], "acme.books.v1 | tiny.v1")
    figure.canvas.draw()
    (axes,) = figure.axes
    (title,) = figure.texts
    legend = axes.get_legend().get_window_extent()
    assert axes.get_window_extent().y1 <= legend.y0
    assert legend.y1 <= title.get_window_extent().y0


def test_the_throughput_is_a_png_of_a_readable_size_on_a_cpu_a_gpu_and_for_rows_of_older_saves() -> None:
    old = [{"step": step, "loss": 1.0, "tokens": 500, "tokens_per_s": 1000.0} for step in range(1, 40)]
    cpu = [{**row, "data_wait_s": 0.1} for row in old]
    gpu = [{**row, "gpu_utilisation": 0.9} for row in cpu]
    for shown in ([], old, cpu, gpu, [{"step": 1, "validation_loss": 0.4}]):
        picture = throughput_curve(shown, "acme.books.v1 | tiny.v1")
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert (width >= 700, height >= 400) == (True, True)


def test_the_trend_of_a_constant_is_that_constant_from_the_first_step() -> None:
    assert all(abs(value - 2.5) < 1e-9 for value in _trend([2.5] * 10))
