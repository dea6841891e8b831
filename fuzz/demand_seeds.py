"""What the fuzzer of demand's readers begins with: a good input of each kind. A test holds that each is read."""


def seeds() -> dict[str, bytes]:
    """Return one good input of each kind, for the fuzzer to change: by itself it writes no JSON for hours."""
    pool = (
        b'{"key":["media","a"],"subject":"act.media.a.128","revision":"r","max_containers":3,'
        b'"min_containers":1,"concurrency":2,"max_age_seconds":9.5}'
    )
    lag = b'{"backlog":5,"in_flight":1,"delivered_total":7,"published_total":12,"oldest_age_seconds":0.5}'
    return {
        "line": b'{"queue":"q","namespace_limit":20,"action_limit":10,"queued":3,"stale":2,"containers":1,'
        b'"creating":1,"state":"NamespaceThrottled","oldest_creation_age_seconds":0.4,"node_room":2}',
        "report": b'{"container":"c","slots":2,"busy":1,"runs":3,"failures":1,"runMs":12.5,"lastRunMs":[4,8.5]}',
        "settings": b'{"type":"settings","epoch":"x","guards":"G1,G2","pools":[%s],"fresh":true}' % pool,
        "tick": b'{"type":"tick","now_seconds":1.5,"lags":{"act.media.a.128":%s},"containers":[]}' % lag,
        "subject": b"act.media.thumbnail.256",
    }
