"""The scheduler's configuration for the extender."""

from slack.scorer.configuration.scheduler_config import (
    CLIENT_BURST,
    CLIENT_QPS,
    ExtenderTls,
    SchedulerOptions,
    scheduler_configuration,
)


def test_the_scheduler_is_told_to_send_names_to_wait_shortly_and_to_go_on_without_us() -> None:
    document = scheduler_configuration(SchedulerOptions())
    (extender,) = document["extenders"]
    assert extender == {
        "urlPrefix": "http://127.0.0.1:8888",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": "200ms",
    }
    assert document["leaderElection"] == {"leaderElect": False}
    assert document["clientConnection"] == {"qps": CLIENT_QPS, "burst": CLIENT_BURST}


def test_scores_that_go_by_requests_are_off_in_the_words_of_this_kubernetes_and_their_filters_are_not() -> None:
    (profile,) = scheduler_configuration(SchedulerOptions())["profiles"]
    disabled = [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]
    assert profile == {"schedulerName": "resource-slack", "plugins": {"score": {"disabled": disabled}}}


def test_what_was_asked_for_is_in_it() -> None:
    tls = ExtenderTls("ca.crt", "tls.crt", "tls.key", "scorer")
    document = scheduler_configuration(
        SchedulerOptions(
            url="https://scorer:8888/", tls=tls, filters=True, percentage_of_nodes=100, kubeconfig="k", lease_name="l"
        )
    )
    (extender,) = document["extenders"]
    assert (extender["urlPrefix"], extender["filterVerb"], extender["enableHTTPS"]) == (
        "https://scorer:8888",
        "filter",
        True,
    )
    files = {"caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key", "serverName": "scorer"}
    assert extender["tlsConfig"] == files
    assert extender["preemptVerb"] == "preempt"
    assert document["percentageOfNodesToScore"] == 100
    assert document["clientConnection"] == {"qps": CLIENT_QPS, "burst": CLIENT_BURST, "kubeconfig": "k"}
    assert document["leaderElection"]["resourceName"] == "l"
