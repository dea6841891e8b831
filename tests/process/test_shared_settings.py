"""Settings that several processes share: their place in help and reference, and the values of the chart they name."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from slack.process.settings import InvalidSettings, NoValue, declared_settings, load, setting
from slack.process.shared_settings import (
    ApiServerSettings,
    LeadingSettings,
    LoggingSettings,
    NodeSettings,
    TlsSettings,
    lease_name_setting,
    tls_cert_setting,
)
from slack.process.values import address, text

CERTIFICATE = tls_cert_setting("Certificate of the page.", NoValue("mounted"))


@dataclass(frozen=True, kw_only=True)
class Example(NodeSettings, TlsSettings, LoggingSettings, ApiServerSettings):
    section: ClassVar[str | NoValue] = "example"

    first: str = setting("a", text, "The first.", chart="example.first")
    page_listen: str = setting("127.0.0.1:1", address, "Where.", metavar="HOST:PORT", chart=NoValue("a port"))
    tls_cert_file: Path | None = CERTIFICATE
    last: str = setting("b", text, "The last.", chart="example.last")


def test_what_is_inherited_comes_first_then_what_is_declared_then_what_all_have() -> None:
    assert [found.name for found in declared_settings(Example)] == [
        *("tls_key_file", "node"),
        *("first", "page_listen", "tls_cert_file", "last"),
        *("log_format", "log_level", "kubeconfig", "context", "listen"),
    ]


def test_what_is_declared_again_replaces_what_is_inherited() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Leader(LeadingSettings):
        lease_name: str = lease_name_setting("mine")

    (found,) = (found for found in declared_settings(Leader) if found.name == "lease_name")
    assert (found.default, found.flag) == ("mine", "--lease-name")
    assert load(Leader, {}, {"POD_NAMESPACE": "here"}).namespace == "here"


def test_logs_are_in_the_process_s_own_part_of_the_chart_or_in_none() -> None:
    def charts(kind: type[LoggingSettings]) -> list[str | NoValue]:
        return [found.chart for found in declared_settings(kind) if found.name.startswith("log_")]

    assert charts(Example) == ["example.logFormat", "example.logLevel"]
    assert all(isinstance(chart, NoValue) for chart in charts(LoggingSettings))


def test_a_certificate_and_its_key_go_together() -> None:
    for given, missing in (("tls_cert_file", "--tls-key-file"), ("tls_key_file", "--tls-cert-file")):
        with pytest.raises(InvalidSettings, match=f"^{missing}: needed: certificate and key go together$"):
            load(Example, {given: "file"}, {})


def test_an_address_that_others_reach_needs_a_certificate() -> None:
    def problems(**flags: object) -> list[str]:
        return list(load(Example, flags, {}).clear_text_problems("page_listen", "passwords would be read"))

    assert problems() == []
    assert problems(page_listen="0.0.0.0:1", tls_cert_file="a", tls_key_file="b") == []
    assert problems(page_listen="0.0.0.0:1") == [
        "--tls-cert-file: needed, as --page-listen 0.0.0.0:1 is no loopback address: passwords would be read"
    ]
