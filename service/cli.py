"""The command line: `planforge serve | worker | plugins | build | infer`."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

from service.commands import build, infer, plugins, serve, worker
from service.commands.common import CommandFailed

COMMANDS = (serve, worker, plugins, build, infer)


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the exit status is 0 if it did what was asked, 1 if not, 2 where it was called wrongly."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except CommandFailed as error:
        print(f"planforge: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="planforge",
        description="Build TensorRT engines with custom CUDA plugins, keep them, and serve them over HTTP.",
        epilog="Settings are environment variables with the prefix PLANFORGE_, such as PLANFORGE_DATA_DIR.",
    )
    parser.add_argument("--version", action="version", version=f"planforge {version('planforge')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
