"""What enforcement sends, in which order, and what it does about refusals, conflicts and a lease that is gone."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slack.audit.api.policy import AuditPolicy, AuditPolicySpec, parse_audit_policy
from slack.audit.api.report import NamespaceFindings
from slack.audit.api.report import report as document_of
from slack.audit.enforcement.raised_limits import FormerLimit, read_former, write_former
from slack.audit.findings.finding import Thresholds
from slack.audit.sources.node_objects import AuditedNode
from slack.audit.sources.pod_objects import AuditedMetadata, decode_pods
from slack.kube.errors import ApiError
from slack_operator.auditor.controller.aggregation import Criteria
from slack_operator.auditor.controller.cluster_view import ReportObject, _Meta
from slack_operator.auditor.controller.enforcer import Enforcer
from slack_operator.auditor.controller.event_reporter import AuditEventReporter
from slack_operator.auditor.controller.limit_record import RECORD_NAME, LimitRecord
from slack_operator.auditor.controller.metrics import AuditControllerMetrics
from slack_operator.auditor.controller.policy_status import AuditObservation, Enforcement, status_of
from slack_operator.auditor.controller.reconciler import SETTLE_SECONDS, Reconciler
from slack_operator.auditor.controller.reports import Reports
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.steady_clock import steady
from tests.operator.auditor.controller.test_node_findings import World, pods, report
from tests.operator.fakes import Clock

HOW = Criteria("5m", Thresholds())
RECORD = f"/api/v1/namespaces/ours/configmaps/{RECORD_NAME}"


class Server:
    """An API server with one pod and the record, as `Writer` sees it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.limit = "500m"
        self.annotations: dict[str, str] = {}
        self.data: dict[str, str] | None = {}
        self.refuse: dict[str, ApiError] = {}
        self.reports: dict[str, Any] = {}
        self.asked: list[str] = []
        self.done_and_refused: ApiError | None = None
        self.on_request: Callable[[], None] = lambda: None
        self.on_record: Callable[[], None] = lambda: None

    def strategic_patch(self, path: str, patch: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        name = path.split("/")[-2]
        assert path == f"/api/v1/namespaces/shop/pods/{name}/resize"
        assert patch["metadata"]["uid"] == f"uid-{name}"
        self.asked.append(name)
        self.on_request()
        what = "dry" if dry_run else "resize"
        limits = [container["resources"]["limits"]["cpu"] for container in patch.get("spec", {}).get("containers", ())]
        self.sent.append(f"{what} {' '.join(limits)}".strip())
        if what in self.refuse:
            raise self.refuse[what]
        if not dry_run and limits:
            self.limit = limits[0]
            if self.done_and_refused:
                raise self.done_and_refused
        return self._pod()

    def get(self, path: str) -> dict[str, Any]:
        assert path == RECORD
        self._check("get")
        if self.data is None:
            raise ApiError(404, "NotFound", "not found")
        return {"data": dict(self.data)}

    def create(self, collection: str, manifest: dict[str, Any]) -> dict[str, Any]:
        assert f"{collection}/{manifest['metadata']['name']}" == RECORD
        self.sent.append("create record")
        self._check("create")
        if self.data is not None:
            raise ApiError(409, "AlreadyExists", "already exists")
        self.data = dict(manifest["data"])
        return manifest

    def merge_patch(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        assert path == RECORD
        self.sent.append("record")
        self.on_record()
        self._check("record")
        if self.data is None:
            raise ApiError(404, "NotFound", "not found")
        for key, value in patch["data"].items():
            self.data.pop(key, None)
            if value is not None:
                self.data[key] = value
        return patch

    def recorded(self, uid: str = "uid-a") -> dict[str, FormerLimit]:
        """What the record says of a pod, by container."""
        return read_former(json.dumps(json.loads((self.data or {}).get(uid, "{}")).get("containers", {})))

    def _check(self, what: str) -> None:
        if what in self.refuse:
            raise self.refuse[what]

    def apply(self, path: str, manifest: dict[str, Any], *, force: bool) -> None:
        self.sent.append(f"apply {path.rpartition('/')[0]}")
        self.reports[path] = manifest

    def delete(self, path: str, *, uid: str) -> bool:
        self.sent.append(f"delete {uid}")
        return True

    def _pod(self) -> dict[str, Any]:
        return {
            "metadata": {"resourceVersion": "7", "annotations": dict(self.annotations)},
            "spec": {"containers": [{"name": "api", "resources": {"limits": {"cpu": self.limit}}}]},
        }


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def record(self, regarding: Any, kind: Any, reason: str, message: str) -> None:
        self.lines.append((reason, message))


class Whole:
    def stale(self) -> str:
        return ""


class Hands(World):
    """An enforcer over a node with one container at its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.server, self.recorder = Server(), Recorder()
        self.leading = True
        self.outcomes: list[str] = []
        self.wall = Clock(1_000_000.0)
        self.enforcer = self.another()
        self.show_pod()
        self.nodes.put(report())

    def another(self) -> Enforcer:
        """An enforcer that knows nothing yet, as after a restart."""
        writer: Any = self.server  # all that it is asked for
        recorder: Any = self.recorder
        self.record = LimitRecord(writer, "ours", may_write=lambda: self.leading, clock=self.clock)
        return Enforcer(
            writer,
            recorder,
            self.view,
            self.nodes,
            self.record,
            may_write=lambda: self.leading,
            on_outcome=self.outcomes.append,
            wall=self.wall,
            clock=self.clock,
        )

    def has_recorded(self, **former: FormerLimit) -> None:
        """An earlier process has raised containers of the pod."""
        value = {"pod": "shop/a", "containers": json.loads(write_former(former) or "{}")}
        self.server.data = {"uid-a": json.dumps(value)}

    def show_pod(self, **status: Any) -> None:
        """The watch brings the pod as the server has it."""
        (shown,) = decode_pods(json.dumps({"items": [_document(self.server, status)]}).encode())
        self.view.put_pod(shown)

    def turn(self, mode: str = "Enforce", **resize: Any) -> Enforcement:
        spec = AuditPolicySpec.model_validate({"mode": mode, "enforce": {"resize": resize}})
        policy = AuditPolicy(name="default", uid="p", spec=spec)
        found = self.nodes.findings({"shop": HOW})
        return self.enforcer.reconcile([policy], {"shop": "default"}, found)["default"]

    def add(self, name: str) -> None:
        """One more pod at its limit, on a node of its own."""
        self.view.put_node(AuditedNode(AuditedMetadata(name=f"on-{name}")))
        for pod in pods(name, node=f"on-{name}"):
            self.view.put_pod(pod)
        self.nodes.put(report(name, f"on-{name}"))

    def reconciler(self) -> Reconciler:
        """A whole turn's worker, without any policy."""
        desired = Desired(lambda: None, parse_audit_policy, "cpuauditpolicy")
        desired.replace_all([], events_before=desired.events)
        writer: Any = self.server
        recorder: Any = self.recorder
        return Reconciler(
            view=self.view,
            watches=Whole(),
            desired=desired,
            nodes=self.nodes,
            writer=writer,
            reports=Reports(writer, may_write=lambda: self.leading, on_written=lambda: None, wall=self.wall),
            event_reporter=AuditEventReporter(recorder, may_write=lambda: self.leading, clock=self.clock),
            enforcer=self.enforcer,
            metrics=AuditControllerMetrics(),
            may_write=lambda: self.leading,
            clock=self.clock,
            wall=self.wall,
        )

    def raised(self) -> None:
        self.turn()
        self.wall.now += 901
        self.turn()


def _document(server: Server, status: dict[str, Any]) -> dict[str, Any]:
    limits = {"limits": {"cpu": server.limit}}
    in_force = {"limits": {"cpu": status.pop("in_force", server.limit)}}
    state = {"name": "api", "containerID": "containerd://" + "c" * 64, "resources": in_force}
    return {
        "metadata": {"name": "a", "namespace": "shop", "uid": "uid-a", "annotations": dict(server.annotations)},
        "spec": {"nodeName": "n1", "containers": [{"name": "api", "resources": limits}]},
        "status": {"qosClass": "Burstable", "containerStatuses": [state]} | status,
    }


@pytest.fixture
def hands() -> Hands:
    return Hands()


def test_it_is_shown_as_a_dry_run_and_done_after_a_while(hands: Hands) -> None:
    now = hands.turn()
    assert hands.server.sent == ["dry 1"]
    assert [(action.outcome, action.from_, action.to) for action in now.actions] == [("planned", "500m", "1")]
    assert [reason for reason, _ in hands.recorder.lines] == ["CPULimitWouldRise"]
    hands.wall.now += 901
    now = hands.turn()
    assert hands.server.sent == ["dry 1", "dry", "record", "resize 1"]
    assert now.actions[0].outcome == "sent"
    assert hands.outcomes == ["dry_run", "sent"]
    former = hands.server.recorded()["api"]
    assert (former.limit, former.raised, former.policy) == ("500m", "1", "default")
    assert json.loads(hands.server.data["uid-a"])["pod"] == "shop/a"  # type: ignore[index]  # it is there


def test_what_the_kubelet_has_in_force_is_the_outcome(hands: Hands) -> None:
    hands.raised()
    hands.show_pod()
    now = hands.turn()
    assert (now.actions[0].outcome, now.raised, now.added_millis, now.last_hour) == ("done", 1, 500, 1)


def test_an_infeasible_resize_is_put_back(hands: Hands) -> None:
    hands.raised()
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "Node has no room"}
    hands.show_pod(conditions=[pending], in_force="500m")
    hands.turn()
    assert hands.server.limit == "500m"
    assert hands.server.data == {}
    assert hands.outcomes[-2:] == ["infeasible", "reverted"]


def test_a_deferred_one_is_waited_for(hands: Hands) -> None:
    hands.raised()
    hands.show_pod(
        conditions=[{"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "later"}]
    )
    assert hands.turn().actions[0].outcome == "deferred"
    assert hands.turn().actions[0].message == "later"
    assert hands.outcomes.count("deferred") == 1


def test_a_refusal_is_told_and_not_repeated_for_an_hour(hands: Hands) -> None:
    hands.server.refuse["dry"] = ApiError(403, "Forbidden", "maximum cpu usage per Container is 1")
    now = hands.turn()
    assert "maximum cpu usage" in (now.refused or "")
    hands.wall.now += 901
    hands.turn()
    assert hands.server.sent == ["dry 1"]
    assert hands.outcomes == ["refused"]


def test_an_api_server_without_resizes_is_named_and_not_asked_each_turn(hands: Hands) -> None:
    hands.server.refuse["dry"] = ApiError(404, "Not Found", "404 page not found")
    now = hands.turn()
    assert "does not serve pods/resize" in (now.refused or "")
    assert "InPlacePodVerticalScaling" in (now.refused or "")
    for _ in range(3):
        hands.wall.now += 60
        hands.turn()
    assert hands.server.sent == ["dry 1"]


def test_a_pod_that_is_gone_is_no_refusal(hands: Hands) -> None:
    hands.server.refuse["dry"] = ApiError(404, "NotFound", 'pods "a" not found')
    assert hands.turn().refused is None
    assert hands.outcomes == []


def test_a_conflict_leaves_no_entry_and_is_tried_again(hands: Hands) -> None:
    hands.turn()
    hands.wall.now += 901
    hands.server.refuse["resize"] = ApiError(409, "Conflict", "the object has been modified")
    hands.turn()
    assert (hands.server.limit, hands.server.data) == ("500m", {})
    assert hands.outcomes[-1] == "conflict"
    hands.server.refuse.clear()
    hands.turn()
    assert hands.server.limit == "1"


def test_a_limit_that_somebody_changed_meanwhile_is_left_alone(hands: Hands) -> None:
    hands.turn()
    hands.wall.now += 901
    hands.server.limit = "600m"
    hands.turn()
    assert (hands.server.limit, hands.server.data) == ("600m", {})


def test_without_the_lease_nothing_is_sent(hands: Hands) -> None:
    hands.leading = False
    with pytest.raises(NotLeading):
        hands.turn()
    assert hands.server.sent == []


def test_revert_puts_back_and_deletes_the_entry(hands: Hands) -> None:
    hands.raised()
    hands.show_pod()
    hands.turn("Revert")
    assert (hands.server.limit, hands.server.data) == ("500m", {})
    assert hands.recorder.lines[-1][0] == "CPULimitRestored"


def test_revert_leaves_what_somebody_has_set_since(hands: Hands) -> None:
    hands.raised()
    hands.server.limit = "3"
    hands.show_pod()
    hands.turn("Revert")
    assert (hands.server.limit, hands.server.data) == ("3", {})


def test_a_request_that_was_done_although_its_answer_was_lost_is_known_by_the_pod(hands: Hands) -> None:
    """The writer tries again, and the second try conflicts with what the first has done."""
    hands.turn()
    hands.wall.now += 901
    hands.server.done_and_refused = ApiError(409, "Conflict", "the object has been modified")
    now = hands.turn()
    assert (hands.server.limit, now.actions[0].outcome) == ("1", "sent")
    assert set(hands.server.recorded()) == {"api"}


def test_an_entry_whose_resize_never_came_is_no_raise_and_no_hindrance(hands: Hands) -> None:
    """The process ended, or lost its lease, between the two requests."""
    hands.has_recorded(api=FormerLimit("500m", "1", hands.wall.now - 60, "default"))
    hands.show_pod()
    now = hands.turn()
    assert (now.raised, now.added_millis, now.last_hour) == (0, 0, 0)
    hands.wall.now += 901
    hands.turn()
    assert hands.server.limit == "1"


def test_a_lease_that_goes_in_the_midst_of_a_raise_ends_it(hands: Hands) -> None:
    hands.turn()
    hands.wall.now += 901
    hands.server.on_record = lambda: setattr(hands, "leading", False)
    with pytest.raises(NotLeading):
        hands.turn()
    assert hands.server.sent[-1] == "record"
    hands.leading, hands.server.on_record = True, lambda: None
    hands.show_pod()
    assert hands.turn("Revert").raised == 0
    assert (hands.server.limit, hands.server.data) == ("500m", {})


def test_a_container_raised_before_a_restart_waits_its_hour_too(hands: Hands) -> None:
    hands.has_recorded(api=FormerLimit("250m", "500m", hands.wall.now - 1200, "default"))
    hands.show_pod()
    hands.raised()
    assert hands.server.limit == "500m"
    hands.wall.now += 3600
    hands.turn()
    assert hands.server.limit == "1"


def test_a_refusal_to_put_back_is_not_repeated_each_turn(hands: Hands) -> None:
    hands.raised()
    hands.show_pod()
    hands.server.refuse["resize"] = ApiError(403, "Forbidden", 'admission webhook "no.resize" denied the request')
    sent = len(hands.server.sent)
    hands.turn("Revert")
    assert "denied the request" in (hands.turn("Revert").refused or "")
    assert len(hands.server.sent) == sent + 2
    hands.wall.now += 301
    hands.server.refuse.clear()
    hands.turn("Revert")
    assert (hands.server.limit, hands.server.data) == ("500m", {})


def test_what_is_infeasible_is_put_back_in_mode_enforce_only_and_after_a_restart(hands: Hands) -> None:
    hands.server.limit = "1"
    hands.has_recorded(api=FormerLimit("500m", "1", hands.wall.now - 60, "default"))
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "Node has no room"}
    hands.show_pod(conditions=[pending], in_force="500m")
    for mode in ("Report", "DryRun"):
        hands.turn(mode)
    assert hands.server.limit == "1"
    hands.turn()
    assert (hands.server.limit, hands.server.data) == ("500m", {})


def test_a_limit_above_the_policys_bound_is_not_written_for_an_infeasible_raise_either(hands: Hands) -> None:
    hands.raised()
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "Node has no room"}
    hands.show_pod(conditions=[pending], in_force="500m")
    before = list(hands.server.sent)
    for _ in range(2):
        now = hands.turn(maxLimitPerContainer="400m")
        assert "its limit was 500m, above maxLimitPerContainer 400m" in (now.refused or "")
    assert (hands.server.limit, hands.server.sent) == ("1", before)
    assert hands.outcomes.count("refused") == 1
    hands.turn(maxLimitPerContainer="1")
    hands.wall.now += 301
    hands.turn(maxLimitPerContainer="1")
    assert hands.server.limit == "500m"


def test_a_webhook_that_hangs_does_not_hold_up_the_turn(hands: Hands) -> None:
    for name in ("d", "e", "f"):
        hands.add(name)
    hands.server.on_request = lambda: setattr(hands.clock, "now", hands.clock.now + 15)
    hands.server.refuse["dry"] = ApiError(500, "InternalError", "failed calling webhook: deadline exceeded")
    hands.turn()
    assert hands.server.asked == ["a", "d"]
    hands.turn()
    assert hands.server.asked == ["a", "d", "e", "f"]  # not the same two again


def test_a_clock_that_jumps_hurries_nothing() -> None:
    wall, clock = Clock(1_000_000.0), Clock(50.0)
    now = steady(wall, clock)
    wall.now += 86_400
    clock.now += 7
    assert now() == 1_000_007.0


def test_a_new_leader_waits_for_the_nodes_once(hands: Hands) -> None:
    """What was whole stays whole: a node that comes later does not stop status and reports."""
    reconciler = hands.reconciler()
    reconciler.reconcile()
    assert not reconciler.settled(hands.nodes.findings({}))  # n2 has not reported
    hands.clock.now += SETTLE_SECONDS
    assert reconciler.settled(hands.nodes.findings({}))
    hands.view.put_node(AuditedNode(AuditedMetadata(name="n3")))
    assert reconciler.settled(hands.nodes.findings({}))


def test_a_leader_that_has_heard_all_nodes_need_not_wait_and_a_lost_lease_begins_anew(hands: Hands) -> None:
    hands.view.drop_node(AuditedNode(AuditedMetadata(name="n2")))
    reconciler = hands.reconciler()
    reconciler.reconcile()
    assert reconciler.settled(hands.nodes.findings({}))
    hands.leading = False
    reconciler.reconcile()
    hands.leading = True
    hands.view.put_node(AuditedNode(AuditedMetadata(name="n3")))
    reconciler.reconcile()
    assert not reconciler.settled(hands.nodes.findings({}))


def test_a_restarted_controller_knows_what_stands_raised(hands: Hands) -> None:
    hands.has_recorded(api=FormerLimit("250m", "500m", hands.wall.now - 60, "default"))
    hands.show_pod()
    now = hands.turn(maxAddedPerNamespace="300m", maxPerHour=1)
    assert (now.raised, now.added_millis, now.last_hour) == (1, 250, 1)


def test_a_pod_is_told_once_an_hour(hands: Hands) -> None:
    event_reporter = AuditEventReporter(hands.recorder, may_write=lambda: True, clock=hands.clock)  # type: ignore[arg-type]  # a double
    policy = AuditPolicy(name="default")
    found = hands.nodes.findings({"shop": HOW}).judged
    assert [event_reporter.report(found, {"shop": policy}) for _ in range(3)] == [1, 0, 0]
    hands.clock.now += 3601
    assert event_reporter.report(found, {"shop": policy}) == 1
    (reason, message) = hands.recorder.lines[0]
    assert reason == "CPUThrottlingHigh"
    assert message.startswith("container api lost ")
    assert message.endswith("at a limit of 500m (level container); advice: raise-limit")
    quiet = replace_events(policy)
    hands.clock.now += 3601
    assert event_reporter.report(found, {"shop": quiet}) == 0


def replace_events(policy: AuditPolicy) -> AuditPolicy:
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"events": False})})


def test_a_report_is_written_when_it_changed_and_not_more_often_than_wanted(hands: Hands) -> None:
    written: list[int] = []
    reports = Reports(
        hands.server,  # type: ignore[arg-type]
        may_write=lambda: hands.leading,
        on_written=lambda: written.append(1),
        wall=hands.wall,
    )
    owner = {"shop": AuditPolicy(name="default", uid="p")}
    namespace = hands.nodes.findings({"shop": HOW}).namespaces["shop"]
    assert reports.write({"shop": namespace}, owner, {}) == 1
    standing = {"shop": ReportObject(_Meta(name="cpu-audit", namespace="shop", uid="r"), policy="default")}
    hands.wall.now += 301
    assert reports.write({"shop": namespace}, owner, standing) == 0
    more = replace(namespace, pods=namespace.pods + 1)
    assert reports.write({"shop": more}, owner, standing) == 0  # it was looked at a moment ago
    hands.wall.now += 301
    assert reports.write({"shop": more}, owner, standing) == 1
    assert reports.write({"shop": replace(more, pods=99)}, owner, standing) == 0
    hands.wall.now -= 86_400  # somebody set the clock
    assert reports.write({"shop": replace(more, pods=99)}, owner, standing) == 1
    hands.wall.now += 86_400
    assert reports.write({"shop": more}, owner, {}) == 1  # somebody deleted it
    assert reports.write({"shop": NamespaceFindings("shop", nodes_silent=1)}, owner, standing) == 0
    assert reports.write({"shop": NamespaceFindings("shop")}, owner, standing) == 1
    assert reports.write({}, {}, standing) == 1
    assert hands.server.sent[-1] == "delete r"
    hands.leading = False
    with pytest.raises(NotLeading):
        reports.write({"shop": more}, owner, {})
    assert len(written) == 6


def test_a_report_that_somebody_calls_another_policys_is_made_once_in_its_time(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may change a report of his namespace can neither have it made each turn, nor keep what he wrote."""
    made: list[str] = []

    def counted(namespace: NamespaceFindings, policy: AuditPolicy, at: str) -> dict[str, Any]:
        made.append(at)
        return dict(document_of(namespace, policy, at))

    monkeypatch.setattr("slack_operator.auditor.controller.reports.report", counted)
    server: Any = hands.server
    reports = Reports(server, may_write=lambda: True, on_written=lambda: None, wall=hands.wall, clock=hands.clock)
    namespace = {"shop": hands.nodes.findings({"shop": HOW}).namespaces["shop"]}
    owner = {"shop": AuditPolicy(name="default", uid="p")}
    reports.write(namespace, owner, {})
    standing = {"shop": ReportObject(_Meta(name="cpu-audit", namespace="shop", uid="r"), policy="theirs")}
    written = 0
    for _ in range(60):  # ten minutes, of which a report may be made each five
        hands.wall.now += 10
        written += reports.write(namespace, owner, standing)
    assert (len(made) - 1, written) == (2, 2)
    other = {"shop": AuditPolicy(name="other", uid="o")}
    assert reports.write(namespace, other, standing) == 1, "another policy is shown at once"


def test_an_api_server_that_fails_slowly_does_not_hold_up_reports_for_ever(hands: Hands) -> None:
    def fails(path: str, manifest: dict[str, Any], *, force: bool) -> None:
        hands.clock.now += 15
        hands.server.sent.append(path.split("/")[5])
        raise ApiError(503, "ServiceUnavailable", "overloaded")

    hands.server.apply = fails  # type: ignore[method-assign]
    server: Any = hands.server
    reports = Reports(server, may_write=lambda: True, on_written=lambda: None, wall=hands.wall, clock=hands.clock)
    names = ("a", "b", "c", "d")
    owner = dict.fromkeys(names, AuditPolicy(name="default", uid="p"))
    for _ in range(2):
        reports.write({name: NamespaceFindings(name, pods=1) for name in names}, owner, {})
    assert hands.server.sent == list(names)


def test_a_bad_audit_policy_names_its_field() -> None:
    desired = Desired(lambda: None, parse_audit_policy, "cpuauditpolicy")
    head = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "CpuAuditPolicy"}
    desired.apply(head | {"metadata": {"name": "web", "uid": "u", "generation": 1}, "spec": {"window": "7m"}})
    assert desired.entries()[0].problems == ("spec.window: input should be '1m', '5m' or '1h', not '7m'",)


def test_a_report_that_is_deleted_each_time_is_left_so_for_a_while_and_named(hands: Hands) -> None:
    server: Any = hands.server
    reports = Reports(server, may_write=lambda: True, on_written=lambda: None, wall=hands.wall, clock=hands.clock)
    policy = AuditPolicy(name="default", uid="p")
    namespace = hands.nodes.findings({"shop": HOW}).namespaces["shop"]
    written = 0
    for _ in range(2 * 360):  # two hours
        hands.clock.now += 10
        hands.wall.now += 10
        written += reports.write({"shop": namespace}, {"shop": policy}, {})
    assert 6 <= written <= 15
    observed = AuditObservation(policy, [namespace], frozenset({"a"}), frozenset(), contests=reports.contested())
    (told,) = [c for c in status_of(observed, {}, "2026-01-01T00:00:00Z")["conditions"] if c["reason"] == "WrittenBack"]
    assert (told["type"], told["status"]) == ("OwnershipContested", "True")
    assert "shop" in told["message"]
    hands.clock.now += 3 * 7200
    hands.wall.now += 3 * 7200
    assert reports.write({"shop": namespace}, {"shop": policy}, {}) == 1
    assert reports.contested() == {}


def test_a_report_is_written_once_while_the_watch_lags(hands: Hands) -> None:
    server: Any = hands.server
    reports = Reports(server, may_write=lambda: True, on_written=lambda: None, wall=hands.wall, clock=hands.clock)
    namespace = hands.nodes.findings({"shop": HOW}).namespaces["shop"]
    owner = {"shop": AuditPolicy(name="default", uid="p")}
    assert [reports.write({"shop": namespace}, owner, {}) for _ in range(5)] == [1, 0, 0, 0, 0]
