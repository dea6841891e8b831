"""`resource-slack`, installed as `kubectl-slack` too: Ctrl-C first, then the commands, whose imports take a while."""

try:
    from slack.cli.interrupts import guarded
except KeyboardInterrupt:  # what `guarded` itself needs takes some milliseconds
    raise SystemExit(130) from None


def main() -> None:
    """Run the program."""
    with guarded():
        from slack.cli.commands import run

        run()


if __name__ == "__main__":
    main()
