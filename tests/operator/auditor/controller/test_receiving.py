"""Reports over TLS: the certificate follows its files, a bad pair leaves the old one, a standby says who leads."""

import http.client
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.harness.cluster.certificates import Authority
from slack.audit.api.encoding import encode
from slack.audit.api.messages import MAX_REPORT_BYTES, REPORTS_PATH, AgentReport, ControllerAnswer
from slack_operator.auditor.controller import receiver as reports
from slack_operator.runtime.callers import Caller, CallerRefused
from slack_operator.runtime.certificates import Certificate, InvalidCertificate
from slack_operator.runtime.report_receiver import ReportReceiver


class Known:
    """Callers of which one is known."""

    def known(self, token: str) -> Caller | None:
        if token != "good":
            raise CallerRefused(401, "no")
        return Caller("agent-1", "n1")


class Box:
    def __init__(self) -> None:
        self.reports: list[AgentReport] = []

    def put(self, report: AgentReport) -> None:
        self.reports.append(report)

    def answer(self, report: AgentReport) -> ControllerAnswer:
        return ControllerAnswer()


def made(box: Box, unready: Callable[[], str | None], tls: ssl.SSLContext | None) -> ReportReceiver:
    return ReportReceiver(
        "127.0.0.1",
        0,
        path=REPORTS_PATH,
        max_bytes=MAX_REPORT_BYTES,
        callers=Known(),  # type: ignore[arg-type]
        take=reports.into(box),
        unready=unready,
        tls=tls,
    )


def certificate(folder: Path, authority: Authority, name: str) -> Certificate:
    place(folder, authority, name)
    return Certificate(folder / "tls.crt", folder / "tls.key")


def place(folder: Path, authority: Authority, name: str) -> None:
    pair = authority.issue(name, hosts=["127.0.0.1"])
    for file, source in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        new = folder / f"{file}.new"
        new.write_bytes(source.read_bytes())
        new.replace(folder / file)


def served(port: int, authority: Authority) -> str:
    context = ssl.create_default_context(cafile=str(authority.certificate_path))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    try:
        connection.connect()
        found = connection.sock.getpeercert()
        return next(name for name in ("first", "second") if f'"{name}"' in json.dumps(found))
    finally:
        connection.close()


def test_the_certificate_follows_its_files_and_a_bad_one_is_not_taken(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca")
    used = certificate(tmp_path, authority, "first")
    receiver = made(Box(), lambda: None, used.context)
    receiver.start()
    try:
        assert served(receiver.port, authority) == "first"
        place(tmp_path, authority, "second")
        used.refresh()
        assert served(receiver.port, authority) == "second"
        (tmp_path / "tls.key").write_text("no key")
        used.refresh()
        assert served(receiver.port, authority) == "second"
        (tmp_path / "tls.crt").unlink()
        used.refresh()
        assert served(receiver.port, authority) == "second"
    finally:
        receiver.stop()


def test_a_pair_that_cannot_be_used_names_its_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidCertificate, match=r"tls\.crt: cannot be read"):
        Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_a_standby_says_who_leads_before_it_looks_at_the_token() -> None:
    box, leads = Box(), [""]
    receiver = made(box, lambda: leads[0], None)
    receiver.start()

    def post(token: str) -> tuple[int, str, str | None]:
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=5)
        try:
            body = encode(AgentReport(node="n1"))
            connection.request("POST", REPORTS_PATH, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode().strip(), answer.headers.get("Retry-After")
        finally:
            connection.close()

    try:
        assert post("good")[0] == 200
        assert [report.node for report in box.reports] == ["n1"]
        assert post("bad")[:2] == (401, "no")
        leads[0] = "this replica does not lead; pod-2 does"
        assert post("bad") == (503, "this replica does not lead; pod-2 does", "5")
        assert len(box.reports) == 1
    finally:
        receiver.stop()
