"""Which runtime a container has, as far as its image's name and its command tell, and how to give it fewer threads.

A guess from names: it chooses the words of an advice, never what is done. Where the image's tag tells that the runtime
sees the limit by itself (Go from 1.25 on), there is no variable to set.
"""

import re
from dataclasses import dataclass

from slack.audit.sources.pods import AuditedContainerFacts

GO_VARIABLE = "GOMAXPROCS"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime and its setting."""

    name: str
    pattern: re.Pattern[str]
    """Of image or command, in small letters."""
    hint: str
    """With `{threads}` for the number."""
    variable: str | None = None
    """An environment variable that does it; None where only a file or a flag does."""
    value: str = "{threads}"
    sees_its_limit: str = ""
    """Why there is nothing to set for the container's own limit; '' if the runtime does not see it."""
    is_list: bool = False
    """The variable holds options of several writers, the image's too, which a new value would replace."""


def _word(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[/\s:_.-])(?:{words})(?:$|[/\s:_.@-]|\d)")


RUNTIMES = (
    Runtime(
        "JVM",
        _word("java|openjdk|jdk|jre|temurin|corretto|zulu|tomcat|jetty|kafka|elasticsearch|cassandra|keycloak"),
        "-XX:ActiveProcessorCount={threads} (garbage collector, compiler and common pool follow it)",
        "JAVA_TOOL_OPTIONS",
        "-XX:ActiveProcessorCount={threads}",
        "the JVM computes its number of processors from the container's limit by itself (from 8u191 and 10 on, "
        "-XX:+UseContainerSupport), and garbage collector, compiler and common pool follow it; an "
        "-XX:ActiveProcessorCount would only keep it from following a limit that is raised. Look for what makes more "
        "busy threads all the same: pools of a fixed size, an ActiveProcessorCount that is set, an older JVM",
        is_list=True,
    ),
    Runtime("gunicorn or uvicorn", _word("gunicorn|uvicorn"), "WEB_CONCURRENCY={threads} workers", "WEB_CONCURRENCY"),
    Runtime(
        "Python",
        _word("python|python3|uwsgi|celery"),
        "{threads} worker processes or threads in its pools (celery --concurrency, uwsgi --processes, OMP_NUM_THREADS)",
    ),
    Runtime("Node.js", _word("node|nodejs|npm|yarn"), "UV_THREADPOOL_SIZE={threads}", "UV_THREADPOOL_SIZE"),
    Runtime(
        "nginx", _word("nginx|openresty"), "worker_processes {threads}; in nginx.conf (`auto` counts the node's CPUs)"
    ),
    Runtime(
        "Go",
        _word("golang|go"),
        "GOMAXPROCS={threads}; Go 1.25 and later (`go version -m` on the program tells) needs that only for the quota "
        "of a level above the container (golang/go#81180)",
        GO_VARIABLE,
    ),
)
ANY_RUNTIME = (
    "Go before 1.25: GOMAXPROCS={threads} (later ones do it by themselves, but not for the quota of a level above, "
    "golang/go#81180); JVM: -XX:ActiveProcessorCount={threads}; Node.js: UV_THREADPOOL_SIZE={threads}; nginx: "
    "worker_processes {threads}; Python: {threads} workers in its pools"
)


_GO = re.compile(r"(?:^|[/:_.-])go(?:lang)?[:_-]?v?(\d{1,2})\.(\d{1,3})(?!\d)")
_GO_SEES_ITS_LIMIT = (1, 25)
_GO_LEAST_THREADS = 2
"""runtime/cgroup_linux.go, adjustCgroupGOMAXPROCS: a limit below two cores counts as two."""
GO_DOES_IT = (
    "Go {version} takes its number of threads from this limit by itself, here {threads} (never fewer than two, so that "
    "its garbage collector does not stop all else), and setting GOMAXPROCS would only keep it from following a limit "
    "that is raised. Look for what makes more busy threads all the same: a GOMAXPROCS that is set already, a go line "
    "before 1.25 in go.mod (it switches that off: GODEBUG containermaxprocs=0), threads of C code, other processes"
)


def go_version(container: AuditedContainerFacts | None) -> tuple[int, int] | None:
    """Return the version of Go in an image's tag (golang:1.25-alpine, app:2.0-go1.25.3); None where it has none."""
    if container is None:
        return None
    found = _GO.search(_image(container))
    return (int(found[1]), int(found[2])) if found else None


def go_does_it(container: AuditedContainerFacts | None, threads: int) -> str | None:
    """Return why there is nothing to set in a container that is Go's; None where there may be.

    `threads` are those that the limit of its own cgroup allows; Go looks at no other.
    """
    version = go_version(container)
    if version is None or version < _GO_SEES_ITS_LIMIT:
        return None
    return GO_DOES_IT.format(version=".".join(map(str, version)), threads=max(_GO_LEAST_THREADS, threads))


def _image(container: AuditedContainerFacts) -> str:
    """Return an image's name and tag, without registry and digest."""
    return container.image.lower().partition("@")[0].rpartition("/")[2]


def runtime_of(container: AuditedContainerFacts | None) -> Runtime | None:
    """Return the runtime that the command names, else the image; None where neither says."""
    if container is None:
        return None
    for text in (*(word.lower().rpartition("/")[2] for word in container.command), _image(container)):
        for runtime in RUNTIMES:
            if runtime.pattern.search(text):
                return runtime
    return None
