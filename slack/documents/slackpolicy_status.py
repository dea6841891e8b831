"""The status of a SlackPolicy: the operator builds it, `status` reads it, and the CRD and its reference are made of it.

Amounts are quantities as text, rounded. `summary` holds the texts of the printed columns.
"""

from typing import Annotated

import msgspec

from slack.schema.status_struct import (
    StatusPart,
    at_most,
    choice_field,
    count_field,
    generation_field,
    list_field,
    map_field,
    text_field,
    time_field,
)

Amounts = dict[str, Annotated[str, at_most(64)]]
"""By resource, as quantities."""


class StatusSummary(StatusPart):
    """Texts of the columns that kubectl prints."""

    state: Annotated[
        str | None, text_field("How the slack is: the reason that matters most, then others that need someone.", 256)
    ] = None
    remedy: Annotated[str | None, text_field("What to do about it; absent where there is nothing to do.")] = None
    rate: Annotated[str | None, text_field("The rate in force as a percentage; for an objective what it is.", 32)] = (
        None
    )
    desired: Annotated[str | None, text_field("cpu/memory wanted.", 128)] = None
    reserved: Annotated[str | None, text_field("cpu/memory of the placeholders whose capacity is on a node.", 128)] = (
        None
    )


class StatusSurplus(StatusPart):
    """What placeholders hold beyond `planned`, and when it is removed; absent if they hold no more."""

    amounts: Annotated[Amounts | None, map_field("How much it is.", 64)] = None
    removal_time: Annotated[
        str | None, time_field("From when it is removed; absent if that is under way, or waits for a replacement.")
    ] = None
    text: Annotated[str | None, text_field("All of it in words.", 256)] = None


class StatusDisplaced(StatusPart):
    """Placeholders that left without the operator's doing."""

    total: Annotated[int | None, count_field("How many, since `since`.")] = None
    since: Annotated[str | None, time_field("Since when they are counted.")] = None


class StatusShape(StatusPart):
    """One entry of `shapes`."""

    name: Annotated[str, text_field("The shape's hash; the end of its ReplicaSet's name.", 63)]
    role: Annotated[
        str | None,
        text_field(
            "cover: the size of pods that come often. fill: the rest of the rate. mirror: as an annotated"
            " workload. demand: as the pods that pools have announced.",
            63,
        ),
    ] = None
    requests: Annotated[Amounts | None, map_field("Requests of one placeholder.", 64)] = None
    count: Annotated[
        int | None, count_field("Placeholders that the plan heads for; 0 when the shape is being given up.")
    ] = None
    replicas: Annotated[
        int | None, count_field("Placeholders that should be there now; another number while slack changes.")
    ] = None
    bound: Annotated[
        int | None,
        count_field("Placeholders on a node; unbound ones that fit on a node and that autoscalers were told of."),
    ] = None
    pending: Annotated[
        int | None,
        count_field("Placeholders on no node yet; unbound ones that fit on none, or nobody was told of yet."),
    ] = None
    for_: Annotated[
        list[Annotated[str, at_most(512)]] | None,
        list_field("Workloads that it has capacity for, the most frequent first.", 20),
    ] = msgspec.field(default=None, name="for")


class StatusUncovered(StatusPart):
    """One entry of `uncovered`."""

    pod: Annotated[str | None, text_field("The workload or pod.", 512)] = None
    reason: Annotated[str | None, text_field("Why.")] = None


class StatusCut(StatusPart):
    """One entry of `cut`."""

    workload: Annotated[str | None, text_field("The workload or pod.", 512)] = None
    asked: Annotated[int | None, count_field("Placeholders that its annotation asks for.")] = None
    granted: Annotated[int | None, count_field("Placeholders that it gets.")] = None
    reason: Annotated[str | None, text_field("Which bound it is.")] = None


class StatusObjective(StatusPart):
    """Why this much is kept, where the policy has an objective."""

    instant_start: Annotated[
        str | None, text_field("The share of pods that must start without waiting for a node.", 32)
    ] = None
    reached: Annotated[str | None, text_field("The share of the last 24 hours.", 32)] = None
    started: Annotated[int | None, count_field("Pods of the last 24 hours that slack could help.")] = None
    late: Annotated[int | None, count_field("Those of them that waited for a node.")] = None
    quantile: Annotated[
        str | None, text_field("The share of what comes within the window that the amount is enough for.", 32)
    ] = None
    window: Annotated[str | None, text_field("From the need for a node until pods run there, measured.", 32)] = None
    pattern: Annotated[str | None, text_field("What explains when pods come.", 64)] = None
    price_per_hour: Annotated[
        str | None, text_field("What the amount costs per hour, by the policy's or the operator's prices.", 32)
    ] = None
    why: Annotated[str | None, text_field("All of it in a sentence.")] = None


class StatusCost(StatusPart):
    """What the policy's placeholders cost now, those whose capacity is on a node: their share of its nodes, in money
    if the operator knows prices; to three digits. The metrics have the same."""

    node_hours_per_hour: Annotated[str | None, text_field("How many of its nodes they amount to.", 32)] = None
    node_hours_per_month: Annotated[str | None, text_field("The same for a month of 730 hours.", 32)] = None
    currency: Annotated[str | None, text_field("Of the prices, where they name one.", 8)] = None
    per_hour: Annotated[str | None, text_field("In money.", 32)] = None
    per_month: Annotated[str | None, text_field("In money, for a month of 730 hours.", 32)] = None
    unpriced_nodes: Annotated[
        int | None, count_field("Nodes without a price; they count with the average of the others.")
    ] = None
    text: Annotated[str | None, text_field("All of it in words, and what the plan costs if that differs.")] = None


class StatusHold(StatusPart):
    """The form of the placeholders, which spec.hold has come to."""

    form: Annotated[str | None, text_field("Bound: a scheduler binds them. Unbound: the capacity stays free.", 16)] = (
        None
    )
    since: Annotated[str | None, time_field("Since when it is this form.")] = None
    reason: Annotated[
        str | None,
        text_field(
            "Configured, AutoscalerRecognised, AutoscalerUnclear (it is looked for), NoAutoscaler, "
            "BoundNotAllowed; or why unbound ones are of no use: NoAnswer (no autoscaler counts them), "
            "NotTold, SchedulerNameChanged, SchedulerNameRefused.",
            64,
        ),
    ] = None
    message: Annotated[str | None, text_field("A sentence for people: why.", 2048)] = None
    retry_time: Annotated[
        str | None, time_field("When Auto tries unbound placeholders again; absent where nothing has failed.")
    ] = None
    release_nodes: Annotated[
        str | None,
        text_field(
            "How nodes are released from unbound placeholders (operator.releaseNodes): Label, MarkerPod, Off.", 16
        ),
    ] = None


class StatusSpared(StatusPart):
    """Pods of the day before the last start that took a placeholder's place, and what they would have waited for a
    node."""

    pods: Annotated[int | None, count_field("How many.")] = None
    seconds: Annotated[int | None, count_field("What all of them together would have waited.")] = None
    text: Annotated[str | None, text_field("All of it in words.")] = None


class StatusWorkloadStarts(StatusPart):
    """One entry of `timeToReady.workloads`."""

    workload: Annotated[str | None, text_field("The workload.", 512)] = None
    pods: Annotated[int | None, count_field("Its pods that became Ready.")] = None
    bound: Annotated[str | None, text_field("Until they had a node.", 32)] = None
    image: Annotated[str | None, text_field("Until the last image was there, by Events of kubelets.", 32)] = None
    started: Annotated[str | None, text_field("Until all containers had started.", 32)] = None
    ready: Annotated[str | None, text_field("Until they were Ready.", 32)] = None
    p99: Annotated[str | None, text_field("99 of 100 were Ready within this.", 32)] = None
    pulled: Annotated[str | None, text_field("Sizes of the images that were pulled for them.", 32)] = None


class StatusTimeToReady(StatusPart):
    """From the creation of real pods until they are Ready, of about the last hour in which pods started. instantStart
    ends with their node; this has image pulls and start-up too."""

    pods: Annotated[int | None, count_field("Pods that became Ready.")] = None
    p50: Annotated[str | None, text_field("Half of them took at most this long.", 32)] = None
    p99: Annotated[str | None, text_field("99 of 100 took at most this long.", 32)] = None
    summary: Annotated[str | None, text_field("Both of them.", 64)] = None
    text: Annotated[str | None, text_field("All of it in words, with what was pulled.")] = None
    workloads: Annotated[
        list[StatusWorkloadStarts] | None,
        list_field("The slowest workloads, by p99; times are means since the creation of their pods.", 16),
    ] = None


class SlackCondition(StatusPart):
    """One entry of `conditions`."""

    type: Annotated[
        str,
        text_field(
            "Good when True: Ready (accepted and acted upon), SlackSatisfied (the room is there), "
            "Covered, Feasible. Good when False: PinsNodes, LimitReached, AutoscalerIgnoresPlaceholders, "
            "ViewStale, PreemptionStuck, OwnershipContested, PlaceholdersChanged, HistoryLost; and five "
            "that are there only while they are true: LargeSlack, ReleaseBlocked, SoftTaintBlocked, "
            "ImagesNotPulled, and Stalled, while somebody must mend something.",
            316,
        ),
    ]
    status: Annotated[str, choice_field("Whether it is so.", "True", "False", "Unknown")]
    reason: Annotated[
        str, text_field("One CamelCase word that stays the same, to search and to alert by; Events have it too.")
    ]
    message: Annotated[str, text_field("A sentence for people: what is so, and what would help.", 32768)]
    last_transition_time: Annotated[str, time_field("Since when the status is as it is.")]
    last_update_time: Annotated[
        str | None, time_field("Since when the reason is as it is, as in a Deployment's conditions.")
    ] = None
    observed_generation: Annotated[int | None, generation_field("The metadata.generation that it is about.")] = None


class SlackPolicyStatus(StatusPart):
    """What the operator found and did. Written by the operator only."""

    observed_generation: Annotated[
        int | None,
        generation_field("The metadata.generation that this status is about; -1 before anything was planned."),
    ] = None
    observed_time: Annotated[
        str | None,
        time_field(
            "When the operator looked last. It writes this every five minutes even if nothing changes: if"
            " it is older than 15 minutes, no operator keeps the status up."
        ),
    ] = None
    summary: StatusSummary | None = None
    nodes: Annotated[int | None, count_field("Nodes of the policy that can take placeholders.")] = None
    rate: Annotated[str | None, text_field("The rate in force, after ladder and schedule, as a number.", 32)] = None
    base: Annotated[Amounts | None, map_field("What the rate is taken of: the requests of real pods.", 64)] = None
    desired: Annotated[Amounts | None, map_field("Extra capacity wanted, within the ceiling.", 64)] = None
    limit: Annotated[
        str | None,
        text_field("Which ceiling or floor binds, and what would be wanted without; absent while none does."),
    ] = None
    planned: Annotated[
        Amounts | None,
        map_field(
            "Requests of all placeholders that the plan heads for, and what CapacityBuffers keep of it (buffered).", 64
        ),
    ] = None
    reserved: Annotated[
        Amounts | None,
        map_field("Requests of the placeholders that are on a node, and of such chunks that fit there.", 64),
    ] = None
    buffered: Annotated[
        Amounts | None,
        map_field(
            "The part of `planned` that CapacityBuffers keep; absent unless spec.capacityBuffers is Count"
            " and there are some.",
            64,
        ),
    ] = None
    surplus: StatusSurplus | None = None
    pending: Annotated[int | None, count_field("Placeholders on no node yet.")] = None
    displaced: StatusDisplaced | None = None
    replicas: Annotated[
        int | None,
        count_field(
            "The room of all placeholders that there are, on nodes or not, counted in standard "
            "placeholders and rounded down: what /scale calls replicas. Only where "
            "spec.extraCapacity.replicas is set."
        ),
    ] = None
    selector: Annotated[
        str | None, text_field("The label selector of the policy's placeholder pods, for /scale.", 256)
    ] = None
    shapes: Annotated[
        list[StatusShape] | None,
        list_field("Placeholders by shape: what each requests, how many there are, and what for.", 256, key="name"),
    ] = None
    uncovered: Annotated[
        list[StatusUncovered] | None,
        list_field(
            "Workloads for whose pods no capacity is kept, and why: the first 16 by name. `resource-slack "
            "plan -o wide` has all.",
            32,
        ),
    ] = None
    cut: Annotated[
        list[StatusCut] | None,
        list_field("Workloads that get less than they reserve by annotation, and why; the first ones.", 32),
    ] = None
    objective: StatusObjective | None = None
    cost: StatusCost | None = None
    hold: StatusHold | None = None
    spared: StatusSpared | None = None
    burst: Annotated[int | None, count_field("Placeholders that one burst can displace before pods wait.")] = None
    sustained: Annotated[str | None, text_field("Displacements a minute that refilling keeps up with.", 32)] = None
    instant_start: Annotated[
        str | None, text_field("Instant starts: share of pods bound within 2 s, in the hour before the last start.", 32)
    ] = None
    time_to_ready: StatusTimeToReady | None = None
    conditions: Annotated[
        list[SlackCondition] | None,
        list_field(
            "Whether slack is there, and if not, why; docs/reference/events.md has every reason.", 32, key="type"
        ),
    ] = None
