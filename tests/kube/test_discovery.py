"""Whether a kind is served at all, which a 404 of its collection does not tell."""

from slack.kube.discovery import is_served
from slack.kube.errors import ApiError, Unreachable
from tests.cases import run_for_each

PATH = "/apis/example.com/v1/namespaces/shop/things"
ABSENT = ApiError(404, "NotFound", "page not found")


class Server:
    """Answers discovery."""

    def __init__(self, **versions: list[str] | Exception) -> None:
        self.versions = versions

    def request(self, method: str, path: str) -> bytes:
        *_, last = path.split("/")
        if last == "example.com":
            if not self.versions:
                raise ABSENT
            known = ",".join(f'{{"groupVersion":"example.com/{name}","version":"{name}"}}' for name in self.versions)
            return f'{{"kind":"APIGroup","versions":[{known}]}}'.encode()
        found = self.versions[last]
        if isinstance(found, Exception):
            raise found
        names = ",".join(f'{{"name":"{name}"}}' for name in found)
        return f'{{"kind":"APIResourceList","resources":[{names}]}}'.encode()


@run_for_each(
    ("versions", "expected"),
    [
        ({}, False),
        ({"v1": ["others"], "v2": ["others", "others/status"]}, False),
        ({"v1": ["others"], "v2": ["things"]}, True),
        ({"v1": ["things"]}, True),
        ({"v1": ABSENT, "v2": ["things"]}, True),
        ({"v1": ABSENT, "v2": ["others"]}, False),
        ({"v1": Unreachable("gone"), "v2": ["things"]}, True),
        ({"v1": Unreachable("gone"), "v2": ["others"]}, None),
        ({"v1": ApiError(403, "Forbidden", "no")}, None),
        ({f"v{number}": ["others"] for number in range(21)}, None),
        ({"v1": Unreachable("gone")}, None),
    ],
)
def test_a_kind_is_served_if_any_version_of_its_group_has_it(
    versions: dict[str, list[str] | Exception], expected: bool
) -> None:
    assert is_served(Server(**versions), PATH) is expected  # type: ignore[arg-type]  # only `request` is used
