"""``python -m tests.warm_workers.ft``: the command ``ft``, in a fork of a process that has imported what it needs."""

from ft_assets.cli.main import app


def main() -> None:
    app(prog_name="ft")


if __name__ == "__main__":
    main()
