"""What of the machine is written down before the harness's Docker starts, and put back when it has ended."""

import fcntl
import ipaddress
import socket
from pathlib import Path

import msgspec
import pytest

from e2e.harness.docker import firewall, folders, leftovers, machine_lock, machine_state, networks, sysctls
from e2e.harness.docker.machine_state import Before
from e2e.harness.errors import HarnessError, UnavailableError

SPAN = "172.30.96.0/20"


def before(**changes: object) -> Before:
    """A machine with forwarding off and nothing else of note, in this boot."""
    state = Before(
        boot=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        docker="/cache/docker",
        span=SPAN,
        links=["lo", "eth0"],
        packet_filter="*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n",
        sysctls={"net/ipv4/ip_forward": "0\n", "kernel/panic": "0\n"},
        folders=[],
    )
    return msgspec.structs.replace(state, **changes)


def test_what_is_written_is_read_in_the_same_boot_and_not_after_it(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    assert machine_state.read(path) is None
    machine_state.write(path, before())
    assert machine_state.read(path) == before()
    machine_state.write(path, before(boot="5c1ff2c6-0000-4000-8000-000000000000"))
    assert machine_state.read(path) is None
    assert [found.name for found in tmp_path.iterdir()] == ["before.json"]


@pytest.mark.parametrize("torn", [b"", b'{"boot": "5c', b'{"filter": "", "forwarding": "0"}', b"\xff\xfe", b"[]"])
def test_a_file_that_cannot_be_read_is_left_aside_with_a_word(
    torn: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "before.json"
    path.write_bytes(torn)
    assert machine_state.read(path) is None
    assert f"{path} cannot be read" in capsys.readouterr().err


class Machine:
    """A machine that only remembers what was done to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.done: list[object] = []
        self.marks: firewall.Marks | None = None
        self.others: list[int] = []
        self.refuses = False
        self.sysctls = tmp_path / "sys"
        for name in ("net/ipv4/ip_forward", "kernel/panic"):
            (self.sysctls / name).parent.mkdir(parents=True)
            (self.sysctls / name).write_text("1\n")
        addresses = {"lo": ["127.0.0.1"], "br-0123456789ab": ["172.30.104.1"], "br-lan": ["192.0.2.1"]}
        put_back = sysctls.put_back
        monkeypatch.setattr(networks, "links", lambda: addresses)
        monkeypatch.setattr(networks, "delete", lambda link: self.done.append(f"delete {link}"))
        monkeypatch.setattr(firewall, "back_to", self._back_to)
        monkeypatch.setattr(folders, "remove_new", lambda known: self.done.append(f"folders but {known}"))
        monkeypatch.setattr(leftovers, "others", lambda _: self.others)
        monkeypatch.setattr(sysctls, "put_back", lambda values: put_back(values, self.sysctls))

    def _back_to(self, _: firewall.Filter, marks: firewall.Marks) -> None:
        self.marks = marks
        if self.refuses:
            raise HarnessError("iptables-restore: no")

    def setting(self, name: str) -> str:
        """One of the kernel's settings."""
        return (self.sysctls / name).read_text()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine with a bridge that came with our Docker, and one that did not."""
    return Machine(monkeypatch, tmp_path)


def test_all_that_was_ours_is_put_back(machine: Machine) -> None:
    machine_state.put_back(before(folders=["/run/docker"]))
    assert machine.marks == firewall.Marks(ipaddress.IPv4Network(SPAN), frozenset({"lo", "eth0", "br-lan"}))
    assert machine.done == ["delete br-0123456789ab", "folders but ['/run/docker']"]
    assert (machine.setting("net/ipv4/ip_forward"), machine.setting("kernel/panic")) == ("0\n", "0\n")


def test_what_another_docker_that_runs_by_now_relies_on_stays(machine: Machine) -> None:
    machine.others = [4711]
    machine_state.put_back(before())
    assert machine.marks is not None
    assert machine.marks.shared
    assert machine.done == ["delete br-0123456789ab"]
    assert (machine.setting("net/ipv4/ip_forward"), machine.setting("kernel/panic")) == ("1\n", "0\n")


def test_the_rest_is_put_back_where_one_thing_fails(machine: Machine) -> None:
    machine.refuses = True
    with pytest.raises(HarnessError, match="iptables-restore: no"):
        machine_state.put_back(before())
    assert machine.done == ["delete br-0123456789ab", "folders but []"]
    assert machine.setting("net/ipv4/ip_forward") == "0\n"


def test_a_machine_that_forwarded_before_keeps_its_policy(machine: Machine) -> None:
    machine_state.put_back(before(sysctls={"net/ipv4/ip_forward": "1\n"}))
    assert machine.marks is not None
    assert machine.marks.forwarded


def test_settings_that_a_node_changes_are_saved_and_written_back_where_they_differ(tmp_path: Path) -> None:
    values = {
        "kernel/panic": "0\n",
        "kernel/keys/root_maxkeys": "200\n",
        "vm/overcommit_memory": "0\n",
        "net/ipv4/ip_forward": "0\n",
        "net/ipv6/conf/all/forwarding": "0\n",
        "net/ipv6/conf/eth0/forwarding": "1\n",
        "net/ipv4/conf/lo/route_localnet": "0\n",
        "net/netfilter/nf_conntrack_max": "65536\n",
        "net/netfilter/nf_conntrack_tcp_timeout_close_wait": "60\n",
    }
    for name, value in values.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value)
    (tmp_path / "kernel/hostname").write_text("not ours\n")
    saved = sysctls.saved(tmp_path)
    assert saved == values
    for name in [*values, "kernel/hostname"]:
        (tmp_path / name).write_text("7\n")
    (tmp_path / "net/ipv4/conf/lo/route_localnet").unlink()
    assert sysctls.put_back(saved, tmp_path) == []
    assert sysctls.saved(tmp_path) == {name: value for name, value in values.items() if "/lo/" not in name}
    assert (tmp_path / "kernel/hostname").read_text() == "7\n"


def test_what_is_set_for_all_links_is_put_back_before_what_is_set_for_one(tmp_path: Path) -> None:
    for link in ("aa0", "all", "default", "eth0"):
        (tmp_path / "net/ipv6/conf" / link).mkdir(parents=True)
        (tmp_path / "net/ipv6/conf" / link / "forwarding").write_text("0\n")
    assert [name.split("/")[3] for name in sysctls.saved(tmp_path)] == ["all", "default", "aa0", "eth0"]


def test_a_setting_that_the_kernel_refuses_is_named() -> None:
    (failed,) = sysctls.put_back({"kernel/ostype": "Plan 9\n"})
    assert failed.startswith("kernel/ostype (")


def test_dockers_key_goes_where_it_was_not_there_before_and_its_folder_if_nothing_else_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "docker"
    monkeypatch.setattr(folders, "_KEY", place / "key.json")
    monkeypatch.setattr(folders, "_FOLDERS", (str(place),))
    monkeypatch.setattr(folders, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(folders, "_TRIES", 2)

    def made() -> None:
        place.mkdir(exist_ok=True)
        (place / "key.json").write_text("{}")

    made()
    folders.remove_new([str(place), str(place / "key.json")])
    assert (place / "key.json").exists()
    folders.remove_new([str(place)])
    assert list(tmp_path.iterdir()) == [place]
    made()
    folders.remove_new([])
    assert not place.exists()
    made()
    (place / "daemon.json").write_text("an admin's")
    folders.remove_empty(place)
    assert {path.name for path in place.iterdir()} == {"key.json", "daemon.json"}


def test_a_socket_goes_only_when_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_TRIES", 2)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        folders.remove_empty(tmp_path)
        assert (tmp_path / "s").exists()
    folders.remove_empty(tmp_path)
    assert not tmp_path.exists()


def test_all_runs_of_a_machine_have_one_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_lock, "PLACE", tmp_path)
    place = machine_lock.folder(tmp_path / "one cache")
    assert machine_lock.folder(tmp_path / "another cache") == place
    with machine_lock.alone(place / "lock"), (place / "lock").open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (place / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_is_in_the_cache_where_the_machine_has_no_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_lock, "PLACE", tmp_path / "none")
    assert machine_lock.folder(tmp_path / "cache") == tmp_path / "cache"


def test_what_somebody_else_put_at_the_locks_place_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_lock, "PLACE", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "resource-slack-docker").symlink_to("elsewhere")
    with pytest.raises(UnavailableError, match="is not this user's"):
        machine_lock.folder(tmp_path / "cache")
