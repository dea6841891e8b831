"""`resource-slack`, installed as `kubectl-slack` too: Ctrl-C first, then the commands, whose imports take a while.

Nothing that is imported is garbage, so it is looked for rarely: a tenth of the start of a command. Processes that stay
have Python's own pace again (`slack.process.running`).
"""

import gc
import os
import sys

gc.set_threshold(200_000)  # the operator imports 160,000 objects

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Nobody has one for us, and looking for them in every installed package takes as long as all of a help text."""

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Its threads take as long to start as all the rest of numpy, and our matrices are too small for more than one."""

try:
    from slack.cli.terminal.ending import end_at_once
    from slack.cli.terminal.interrupts import guard_signals
except KeyboardInterrupt:  # what `guarded` itself needs takes some milliseconds
    raise SystemExit(130) from None


def main() -> None:
    """Run the program."""
    try:
        with guard_signals():
            if sys.argv[1:] in ([], ["help"], ["--help"], ["-h"]):  # asked most: it waits for no library
                from slack.cli.command_table import help_text, program
                from slack.cli.terminal.output import output_checked

                with output_checked():
                    sys.stdout.write(help_text(program(sys.argv[0])))
                return
            from slack.cli.commands import run

            run()
    except SystemExit as ended:
        end_at_once(ended.code)
        raise


def complete() -> None:
    """`kubectl_complete-slack`: kubectl looks for a program of this name and runs it with the words so far."""
    with guard_signals():
        from slack.cli.commands import complete as answer

        answer(sys.argv[1:])


if __name__ == "__main__":
    main()
