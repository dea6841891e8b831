"""The chart as a package: Helm's own, with what the tree cannot know.

The tree names `https://example.com/resource-slack` as the project's home and an image that nobody can pull; what is
published names the project's own.
"""

import re
import shutil
import subprocess
from pathlib import Path

CHART = Path(__file__).resolve().parents[1] / "charts" / "resource-slack"
NOWHERE = "https://example.com/resource-slack"
_IMAGE = re.compile(r"(?m)^  repository: resource-slack #.*$")


def package(helm: Path, out: Path, *, project_url: str | None, image: str | None, scratch: Path) -> Path:
    """Package the chart.

    Args:
        helm: the program.
        out: the folder of the archive.
        project_url: where the project is at home; None leaves the tree's example in.
        image: registry and name of the published image; None leaves it to who installs.
        scratch: an empty folder to work in.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    copy = scratch / "resource-slack"
    shutil.copytree(CHART, copy)
    if project_url is not None:
        about = copy / "Chart.yaml"
        text = about.read_text(encoding="utf-8")
        about.write_text(text.replace(NOWHERE, project_url.rstrip("/")), encoding="utf-8")
    if image is not None:
        values = copy / "values.yaml"
        text, count = _IMAGE.subn(f"  repository: {image}", values.read_text(encoding="utf-8"))
        assert count == 1, "values.yaml has no line for the image's repository"
        values.write_text(text, encoding="utf-8")
    surroundings = {"HOME": str(scratch), "PATH": "/usr/bin:/bin"}
    for command in (["lint", "--strict", str(copy)], ["package", str(copy), f"--destination={out}"]):
        subprocess.run([str(helm), *command], env=surroundings, check=True, capture_output=True, text=True)
    (made,) = out.glob("resource-slack-*.tgz")
    return made
