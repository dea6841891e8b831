"""Container images made by hand: one layer with a static busybox, as an OCI archive that containerd imports."""

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "sleep", "cat", "echo", "usleep")
PAUSE = "resource-slack.test/pause:1"
BURNER = "resource-slack.test/burner:1"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OCI = "application/vnd.oci.image"


def archive(
    path: Path,
    name: str,
    command: Sequence[str],
    busybox: Path = BUSYBOX,
    files: Mapping[str, Path] | None = None,
    **settings: object,
) -> Path:
    """Write an image with the given name that runs `command` when a pod gives none.

    Args:
        path: where to.
        name: the image's.
        command: what it runs.
        busybox: the program.
        files: what is there beside it.
        settings: further ones of the image, in its own spelling.
    """
    layer = _layer(busybox, files or {})
    config = _json(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/bin"], **settings},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _descriptor(config, "config.v1+json"),
            "layers": [_descriptor(layer, "layer.v1.tar")],
        }
    )
    named = {**_descriptor(manifest, "manifest.v1+json"), "annotations": {"io.containerd.image.name": name}}
    members = {f"blobs/sha256/{_digest(blob).partition(':')[2]}": blob for blob in (layer, config, manifest)}
    members["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    members["index.json"] = _json({"schemaVersion": 2, "manifests": [named]})
    path.write_bytes(_tar(members))
    return path


def bulky(folder: Path, megabytes: int) -> dict[str, bytes | Path]:
    """Write an image with so much in its one layer; return its blobs by digest, the manifest's last.

    The layer is written to a file, for it may be larger than memory allows. Each call makes another layer.
    """
    path, hashed = folder / f"layer-{os.urandom(4).hex()}.tar", hashlib.sha256()
    entry = tarfile.TarInfo("bulk")
    entry.size, entry.mode = megabytes * 1_000_000, 0o644
    block = os.urandom(1_000_000)
    with path.open("wb") as file:
        for part in (entry.tobuf(tarfile.GNU_FORMAT), *(block for _ in range(megabytes))):
            file.write(part)
            hashed.update(part)
        rest = bytes(-entry.size % tarfile.BLOCKSIZE) + _layer(BUSYBOX, {})
        file.write(rest)
        hashed.update(rest)
    digest = f"sha256:{hashed.hexdigest()}"
    config = _json(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": ["/bin/sleep", "3600"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    )
    layer = {"mediaType": f"{_OCI}.layer.v1.tar", "digest": digest, "size": path.stat().st_size}
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _descriptor(config, "config.v1+json"),
            "layers": [layer],
        }
    )
    return {digest: path, _digest(config): config, _digest(manifest): manifest}


def _layer(busybox: Path, files: Mapping[str, Path]) -> bytes:
    links = {f"bin/{applet}": "busybox" for applet in APPLETS}
    contents = {name.lstrip("/"): path.read_bytes() for name, path in {"bin/busybox": busybox, **files}.items()}
    above = {str(folder) for name in contents for folder in Path(name).parents} - {"."}
    return _tar(contents, folders=sorted({"bin", "tmp", "proc", "sys", "dev", "etc"} | above), links=links)


def _tar(files: Mapping[str, bytes], folders: Sequence[str] = (), links: Mapping[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in folders:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def _descriptor(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": f"{_OCI}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
