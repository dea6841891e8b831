"""Debian's containerd 1.6 in a mount namespace of its own: its images, and what it leaves running when it ends."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from e2e.harness.errors import HarnessError
from e2e.harness.node import images
from e2e.harness.node.mount_namespace import MountNamespace
from e2e.harness.ports import LOOPBACK
from e2e.harness.processes import Program

STATE = Path("/run/containerd")
"""Shims put their sockets below it whatever containerd is told, so that this is where the namespace has a folder."""
SOCKET = STATE / "containerd.sock"
PLUGINS = Path("/usr/lib/cni")
_NAMESPACE = "k8s.io"

# restrict_oom_score_adj: without CAP_SYS_RESOURCE no process can be made less likely to be killed, and runc dies of it
# ("can't get final child's PID from pipe: EOF"). The native snapshotter copies a layer of two MiB where an overlay
# would ask for a file system that can be under one.
_CONFIGURATION = """\
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", \
"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs"]

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  stream_server_address = "{loopback}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
"""

# A node without a network is not ready. Each pod gets a pair of virtual cards that goes when its namespace goes, so no
# bridge stays behind; nothing beyond this machine is reached, and of it the nodes' own addresses.
_NETWORK = """\
{
  "cniVersion": "0.4.0",
  "name": "resource-slack-e2e",
  "plugins": [
    {"type": "ptp", "ipMasq": false,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.18.77.0/24"}]], "routes": [{"dst": "198.18.128.0/17"}],
              "dataDir": "/var/lib/cni/networks"}},
    {"type": "loopback"}
  ]
}
"""


class Containerd:
    """One containerd, with the images of the suites.

    Usage:

        with MountNamespace([...], run_folder) as space, Containerd(space, run_folder) as containerd:
            containerd.ctr("images", "ls")
    """

    def __init__(self, space: MountNamespace, run_folder: Path) -> None:
        self._space = space
        self._run_folder = run_folder
        self.root = run_folder / "containerd"
        self._program: Program | None = None

    def start(self) -> Self:
        """Start it and bring in the images."""
        networks = self._run_folder / "networks"
        networks.mkdir(exist_ok=True)
        (networks / "10-e2e.conflist").write_text(_NETWORK, encoding="utf-8")
        configuration = self._run_folder / "containerd.toml"
        text = _CONFIGURATION.format(
            root=self.root,
            state=STATE,
            socket=SOCKET,
            pause=images.PAUSE,
            loopback=LOOPBACK,
            plugins=PLUGINS,
            networks=networks,
        )
        configuration.write_text(text, encoding="utf-8")
        command = self._space.command(["containerd", f"--config={configuration}", "--log-level=warn"])
        self._program = Program("containerd", command, self._run_folder).start()
        self._program.wait_until_ready(self._answers, seconds=30)
        for name, run in ((images.PAUSE, ["/bin/sleep", "2147483647"]), (images.BURNER, ["/bin/sh"])):
            path = images.archive(self._run_folder / "image.tar", name, run)
            self.ctr("images", "import", str(path))
            path.unlink()
        return self

    def stop(self) -> None:
        """End it; its shims and containers live on until their namespace and their groups end."""
        if self._program is not None:
            self._program.stop(seconds=5.0)

    def kill(self) -> None:
        """End it at once, as a machine that stops does."""
        if self._program is not None:
            self._program.kill()

    @property
    def pid(self) -> int:
        """The process id; an error if it does not run."""
        if self._program is None:
            raise HarnessError("containerd is not running")
        return self._program.pid

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own command and return what it printed."""
        done = self._ctr(arguments)
        if done.returncode != 0:
            raise HarnessError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        return self._ctr(["version"]).returncode == 0

    def _ctr(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = self._space.command(["ctr", f"--address={SOCKET}", f"--namespace={_NAMESPACE}", *arguments])
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
