"""Names of images: the form that a kubelet takes, and which names stand for the same image on a node.

A node lists its images with full names (`docker.io/library/redis:7`, `r.io/a@sha256:...`), and pods use short ones.
"""

import re

_HOST = r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?"
_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
IMAGE_NAME = rf"^({_HOST}/)?{_PART}(/{_PART})*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{{0,127}})?(@sha256:[0-9a-f]{{64}})?$"
"""As the reference grammar of the distribution project has it; the API server checks the same."""
LONGEST_NAME = 512
NO_IMAGE = "an image is a name such as registry.example.com/team/app:1.2 or one with @sha256: and 64 hexadecimal digits"
_DEFAULT_HOST, _DEFAULT_FOLDER, _DEFAULT_TAG = "docker.io", "library", "latest"


def is_image(name: str) -> bool:
    """Say whether a text is the name of an image."""
    return len(name) <= LONGEST_NAME and re.fullmatch(IMAGE_NAME, name) is not None


def full_name(name: str) -> str:
    """Return the name that nodes list an image under; a name with a digest has no tag."""
    path, at, digest = name.partition("@")
    first, slash, _ = path.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        path = f"{_DEFAULT_HOST}/{path}" if slash else f"{_DEFAULT_HOST}/{_DEFAULT_FOLDER}/{path}"
    folder, _, last = path.rpartition("/")
    repository, colon, tag = last.partition(":")
    if at:
        return f"{folder}/{repository}@{digest}"
    return f"{folder}/{repository}:{tag if colon else _DEFAULT_TAG}"
