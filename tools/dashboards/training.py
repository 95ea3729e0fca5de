"""The dashboard of a training."""

from tools.dashboards.panel import Board, Panel

_OF = '{tenant="$tenant", dataset="$dataset", recipe="$recipe"}'
_LEGEND = "attempt {{attempt}}"

BOARD = Board(
    title="Fine-tuning: training",
    variables={
        "tenant": "label_values(ft_training_step, tenant)",
        "dataset": 'label_values(ft_training_step{tenant="$tenant"}, dataset)',
        "recipe": 'label_values(ft_training_step{tenant="$tenant", dataset="$dataset"}, recipe)',
    },
    panels=(
        *(
            Panel(
                title=title,
                unit=unit,
                queries={title.lower(): f"max(ft_training_{column}{_OF})"},
                description=description,
                kind="stat",
                width=4,
                limit=limit,
                zero=False,
                kept=True,
            )
            for title, unit, column, limit, description in (
                ("Step", "none", "step", None, "Latest optimizer step."),
                ("Epoch", "short", "epoch", None, "Completed passes over the data."),
                ("Loss", "short", "loss", None, "Training loss of the latest step."),
                ("Validation loss", "short", "validation_loss", None, "Loss of the latest validation."),
                ("Tokens per second", "short", "tokens_per_s", None, "On all GPUs, without validation and saves."),
                ("Alerts", "short", "alerts", 1, "Slow, starved of data, or a failing validation. Details: ft status."),
            )
        ),
        Panel(
            title="Loss over time",
            unit="short",
            queries={
                f"training, {_LEGEND}": f"ft_training_loss{_OF}",
                f"validation, {_LEGEND}": f"ft_training_validation_loss{_OF}",
            },
            description="Loss of each step and of the latest validation. A resumed attempt continues from a save.",
            zero=False,
        ),
        Panel(
            title="Tokens per second over time",
            unit="short",
            queries={_LEGEND: f"ft_training_tokens_per_s{_OF}"},
            description="On all GPUs, without validation and saves.",
        ),
        Panel(
            title="Gradient norm",
            unit="short",
            queries={_LEGEND: f"ft_training_grad_norm{_OF}"},
            description="Before clipping.",
            width=8,
        ),
        Panel(
            title="Learning rate",
            unit="sci",
            queries={_LEGEND: f"ft_training_learning_rate{_OF}"},
            description="Learning rate of the step.",
            width=8,
        ),
        Panel(
            title="Waiting for data in each step",
            unit="s",
            queries={_LEGEND: f"ft_training_data_wait_s{_OF}"},
            description="Time that the device waited for data. More than 20 % of each step raises an alert.",
            width=8,
        ),
        Panel(
            title="Utilisation",
            unit="percentunit",
            queries={
                f"model FLOPs, {_LEGEND}": f"ft_training_mfu{_OF}",
                f"time at work, {_LEGEND}": f"ft_training_gpu_utilisation{_OF}",
            },
            description="Share of the GPUs' peak used by the model's operations, and share of time in use.",
        ),
        Panel(
            title="Memory",
            unit="gbytes",
            queries={
                f"GPU: peak of tensors, {_LEGEND}": f"ft_training_gpu_memory_gib{_OF}",
                f"GPU: allocator, {_LEGEND}": f"ft_training_gpu_reserved_gib{_OF}",
                f"process, {_LEGEND}": f"ft_training_host_memory_gib{_OF}",
            },
            description="Of the GPU with the highest use, and of the first rank's process.",
        ),
    ),
)
