"""Objects that cannot be read are named in a metric, of each process that lists or watches."""

from slack.kube.object_names import ObjectName
from slack.kube.unreadable import MOST_NAMES, UnreadableObjects
from slack.kube.watch import Undecodable
from slack.process.metric_definition import BUILD_INFO
from slack_operator.runtime.metrics import ProcessMetrics

PATH = "/apis/apps/v1/deployments"


def test_an_object_is_shown_while_it_cannot_be_read_and_a_hundred_at_the_most() -> None:
    metrics, objects = ProcessMetrics(BUILD_INFO), UnreadableObjects(PATH)
    metrics.unreadable.follow(lambda: {PATH: objects.names})

    def shown(name: str) -> float | None:
        return metrics.registry.get_sample_value("slack_unreadable_object", {"path": PATH, "object": name})

    objects.begin()
    for number in range(2 * MOST_NAMES):
        objects.add_object(Undecodable(ObjectName(f"d{number}", "tenant"), "it is nested too deeply"))
    objects.end()
    assert shown("tenant/d0") == 1
    assert len(objects.names) == MOST_NAMES
    assert objects.count == 2 * MOST_NAMES
    objects.begin()
    objects.add_object(Undecodable(ObjectName("d1", "tenant"), "it is nested too deeply"))
    assert shown("tenant/d0") == 1, "the new list is not whole yet"
    objects.end()
    assert (shown("tenant/d0"), shown("tenant/d1")) == (None, 1)
