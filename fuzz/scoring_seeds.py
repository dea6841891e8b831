"""What the fuzzer of the scorer's readers begins with: a good input of each kind. A test holds that each is read."""

AT = 1_800_000_000.0
"""When providers are asked, in Unix seconds."""


def seeds() -> dict[str, bytes]:
    """Return one good input of each kind, for the fuzzer to change: by itself it writes no JSON for hours."""
    container = b'{"name":"c","resources":{"requests":{"cpu":"1"}}}'
    pod = b'{"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[%s]}}' % container
    metrics = b'{"metrics":[{"name":"m","type":"cpu","operator":"AVG","rollup":"AVG","value":12.5}]}'
    head = b'{"timestamp":1,"window":{"duration":"5m","start":0,"end":1},"source":"s","data":'
    pair = b"[[1],[1]]"
    names = (b"capacity", b"allocatable", b"requested", b"limited", b"placeholders", b"mean_percent")
    columns = b",".join(
        b'"%s":%s' % (name, pair) for name in (*names, b"deviation_percent", b"missing", b"window_seconds")
    )
    nodes = b'{"names":["a"],"pods":[1],"state":[0],"known":[[true],[true]],"age_seconds":[1],%s}' % columns
    own = b'{"namespace":"n","name":"p","placeholder":false,"spec":{"containers":[]}}'
    return {
        "request with names": b'{"Pod":%s,"Nodes":null,"NodeNames":["a","b"]}' % pod,
        "request with nodes": b'{"Pod":%s,"Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":null}' % pod,
        "preemption": b'{"Pod":%s,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"}],"NumPDBViolations":0}}}' % pod,
        "payload": head + b'{"a":%s}}' % metrics,
        "payload of upstream": head
        + b'{"NodeMetricsMap":{"a":%s}}}' % metrics.replace(b'"cpu"', b'"CPU"').replace(b'p":"AVG"', b'p":"5m"'),
        "analysis": b'{"source":"s","fetched_at":1,"error":null,"dropped":[{"series":"a:9100","node":"a","type":"cpu",'
        b'"reason":"Stale","detail":"d"}],"unmatched":["b"],"unknown":["c"]}',
        "answer of Prometheus": b'{"status":"success","data":{"resultType":"vector","result":'
        b'[{"metric":{"nodename":"a"},"value":[%d,"0.125"]}]}}' % AT,
        "times of Prometheus": b'{"status":"success","data":{"resultType":"vector","result":'
        b'[{"metric":{"nodename":"a"},"value":[%d,"%d"]}]}}' % (AT, AT),
        "answer of InfluxDB": b'{"results":[{"series":[{"name":"cpu","tags":{"host":"a"},"columns":["time","avg","std",'
        b'"latest"],"values":[[%d,0.125,0.01,0.125]]}]}]}' % AT,
        "answer of Metrics Server": b'{"items":[{"metadata":{"name":"a"},"timestamp":"2027-01-15T08:00:00Z",'
        b'"usage":{"cpu":"500m","memory":"1Gi"}}]}',
        "record": b'{"version":2,"at":1,"coverage":"Enough","pod":%s,"nodes":%s,"scores":[1],"rule":"Measured"}'
        % (own, nodes),
    }
