"""Everything up to the push and the push itself, rehearsed: a key of one's own, and a registry on loopback."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from e2e.harness import build
from e2e.harness.product.helm import Helm
from e2e.release.registry import Registry
from release import chart, signing
from release.build import SUMS, sums


def test_the_chart_is_pushed_pulled_by_digest_and_rendered_from_the_registry(tmp_path: Path) -> None:
    helm = Helm(tmp_path)
    program = build.ensure(["helm"])["helm"]
    image = "registry.example.org/slack"
    (tmp_path / "out").mkdir()
    package = chart.package(program, tmp_path / "out", project_url=None, image=image, scratch=tmp_path / "scratch")
    with Registry() as registry:
        address = f"oci://{registry.address}/charts"
        pushed = helm.run("push", package, address, "--plain-http")
        said = pushed.stdout + pushed.stderr
        assert pushed.returncode == 0, said
        digest = re.findall(r"sha256:[0-9a-f]{64}", said)[-1]
        kind, manifest = registry.manifests["charts/resource-slack", digest]
        assert kind == "application/vnd.oci.image.manifest.v1+json"
        (layer, *_) = json.loads(manifest)["layers"]
        assert layer["digest"] == f"sha256:{hashlib.sha256(package.read_bytes()).hexdigest()}"
        shown = helm.run("template", "slack", f"{address}/resource-slack@{digest}", "--plain-http")
        assert shown.returncode == 0, shown.stderr
        assert f'image: "{image}:' in shown.stdout
        dry = ("--plain-http", "--dry-run=client")
        notes = helm.run("install", "slack", f"{address}/resource-slack@{digest}", *dry).stdout.partition("NOTES:")[2]
        assert "Does it run?" in notes
        assert "cannot be pulled" not in notes, "a published chart names the published image"


def test_the_sums_are_signed_with_a_key_of_ones_own_and_nothing_else_passes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "resource-slack.tgz").write_bytes(b"chart")
    listed = out / SUMS
    listed.write_text("".join(f"{digest}  {name}\n" for name, digest in sums(out).items()))
    private, public = signing.make_key(tmp_path)
    signature = signing.sign(listed, private)
    signing.verify(listed, signature, public, tmp_path)
    listed.write_text(listed.read_text().replace("resource-slack.tgz", "other.tgz"))
    with pytest.raises(signing.BadSignature, match=SUMS):
        signing.verify(listed, signature, public, tmp_path)
    (tmp_path / "other").mkdir()
    _, stranger = signing.make_key(tmp_path / "other")
    with pytest.raises(signing.BadSignature, match="resource-slack"):
        signing.verify(
            out / "resource-slack.tgz", signing.sign(out / "resource-slack.tgz", private), stranger, tmp_path
        )
