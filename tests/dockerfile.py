"""Runs a stage of a Dockerfile in an empty folder instead of a container.

What differs from Docker, and nothing else does: folders of the image (`/src`, `/opt`, `/var`) lie below the given one;
the base image is the machine with nothing but its own programs and one Python on the path; files belong to whoever runs
this; the port is a free one; pip may use a cache and the machine's own pip settings, for it may reach no index without.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

Instruction = tuple[str, str]
FROM_OUTSIDE = re.compile(r"(PIP|SSL)_\w+|\w+_proxy", re.IGNORECASE)


def stages(dockerfile: str) -> dict[str, list[Instruction]]:
    """The instructions of every named stage, `FROM` first."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: dict[str, list[Instruction]] = {}
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            listed = found.setdefault(rest.rpartition(" AS ")[2], [])
        listed.append((word, rest))
    return found


def context(root: Path) -> list[Path]:
    """Files of the tree, relative to it, that `.dockerignore` lets in."""
    patterns = [line for line in (root / ".dockerignore").read_text().split("\n") if line and line[0] != "#"]
    tops = [top for top in root.iterdir() if not _ignored(top.relative_to(root), patterns)]
    files = (path.relative_to(root) for top in tops for path in (top, *top.rglob("*")) if path.is_file())
    return [path for path in files if not _ignored(path, patterns)]


def _ignored(path: Path, patterns: list[str]) -> bool:
    """Docker's rule: the last pattern counts that matches the path or a folder that it lies in."""
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!").replace("**/", "*")
        if any(fnmatch.fnmatch(str(each), plain) for each in (path, *path.parents)):
            ignored = not pattern.startswith("!")
    return ignored


@dataclass
class Stage:
    root: Path
    """The folder that stands for `/`."""
    tree: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    command: str = ""
    healthcheck: str = ""

    def __post_init__(self) -> None:
        programs = self.root / "usr/local/bin"
        programs.mkdir(parents=True)
        (programs / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
        kept = {name: value for name, value in os.environ.items() if FROM_OUTSIDE.fullmatch(name)}
        kept["PIP_COMPILE"] = "0"  # Python makes the bytecode when it needs it: half the time
        self.environment = {**kept, "PATH": f"{programs}:/usr/bin:/bin", "PLANFORGE_PORT": str(self.port)}

    def adapted(self, text: str) -> str:
        text = re.sub(r"(?<![\w.$/])/(src|opt|var)\b", rf"{self.root}/\1", text)
        text = re.sub(
            r"--(owner|group)=\d+", lambda m: f"--{m[1]}={os.getuid() if m[1] == 'owner' else os.getgid()}", text
        )
        return text.replace(":8000", f":{self.port}")

    def run(self, instructions: list[Instruction]) -> None:
        """Raises for an instruction that fails or that this does not know."""
        for word, rest in instructions:
            getattr(self, f"_{word.lower()}")(rest)

    def shell(self, line: str) -> subprocess.Popen[str]:
        """A command line as Docker would run it in the image."""
        return subprocess.Popen(
            ["/bin/sh", "-c", self.adapted(line)], cwd=self.root, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def _from(self, rest: str) -> None:
        pass

    _volume = _expose = _from

    def _env(self, rest: str) -> None:
        for name, value in (pair.split("=", 1) for pair in shlex.split(rest)):
            if name != "PIP_NO_CACHE_DIR":
                self.environment[name] = self.adapted(value.replace("$PATH", self.environment["PATH"]))

    def _copy(self, rest: str) -> None:
        source, destination = rest.split()
        assert source == "."
        for path in context(self.tree):
            target = Path(self.adapted(destination)) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.tree / path, target)

    def _run(self, rest: str) -> None:
        process = self.shell(rest)
        said, _ = process.communicate()
        assert process.returncode == 0, f"{rest}\n{said}"

    def _user(self, rest: str) -> None:
        self.user = rest

    def _healthcheck(self, rest: str) -> None:
        self.healthcheck = rest.partition("CMD ")[2]

    def _cmd(self, rest: str) -> None:
        self.command = shlex.join(re.findall(r'"([^"]+)"', rest))
