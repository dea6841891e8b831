"""What the fuzzer of the throttler's readers begins with: a good input of each kind. A test holds that each is read."""


def seeds() -> dict[str, bytes]:
    """Return one good input of each kind, for the fuzzer to change: by itself it writes no JSON for hours."""
    row = b'{"namespace":"n","pod":"p","uid":"u","container":"c","state":"starting","since":1,"start":2,"reason":"r"}'
    return {
        "hello": b'{"type":"hello","token":"t","version":1}',
        "ask": b'{"type":"ask","container":"c","start":1,"depends_on":["b"],"opened_seconds":61.5,"instance":"i"}',
        "report": b'{"node":"a","at":1,"slots":2,"counts":{"pending":1},"granted":3,"containers":[%s]}' % row,
        "answer": b'{"version":1,"every_seconds":5}',
        "depends on": b'{"c":["a","b"],"b":["a"]}',
    }
