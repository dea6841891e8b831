"""Which runtime a container has, as far as its image's name and its command tell, and how to give it fewer threads.

A guess from names: it chooses the words of an advice, never what is done.
"""

import re
from dataclasses import dataclass

from slack.cfs.pods import ContainerFacts


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime and its setting."""

    name: str
    pattern: re.Pattern[str]
    """Of image or command, in small letters."""
    hint: str
    """With `{threads}` for the number."""
    variable: str = ""
    """An environment variable that does it; '' where only a file or a flag does."""
    value: str = "{threads}"


def _word(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[/\s:_.-])(?:{words})(?:$|[/\s:_.@-]|\d)")


RUNTIMES = (
    Runtime(
        "JVM",
        _word("java|openjdk|jdk|jre|temurin|corretto|zulu|tomcat|jetty|kafka|elasticsearch|cassandra|keycloak"),
        "-XX:ActiveProcessorCount={threads} (garbage collector, compiler and common pool follow it)",
        "JAVA_TOOL_OPTIONS",
        "-XX:ActiveProcessorCount={threads}",
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
        "GOMAXPROCS={threads}; Go 1.25 and later does it by itself, but not for the quota of a level above the "
        "container (golang/go#81180)",
        "GOMAXPROCS",
    ),
)
ANY_RUNTIME = (
    "Go before 1.25: GOMAXPROCS={threads} (later ones do it by themselves, but not for the quota of a level above, "
    "golang/go#81180); JVM: -XX:ActiveProcessorCount={threads}; Node.js: UV_THREADPOOL_SIZE={threads}; nginx: "
    "worker_processes {threads}; Python: {threads} workers in its pools"
)


def runtime_of(container: ContainerFacts | None) -> Runtime | None:
    """Return the runtime that the command names, else the image; None where neither says."""
    if container is None:
        return None
    image = container.image.lower().partition("@")[0].rpartition("/")[2]
    for text in (*(word.lower().rpartition("/")[2] for word in container.command), image):
        for runtime in RUNTIMES:
            if runtime.pattern.search(text):
                return runtime
    return None
