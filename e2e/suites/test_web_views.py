"""The page as people see it: at three widths, light and dark, with everything open, by what axe-core finds wrong.

No cluster: the operator's own server over a made-up one. The pictures of docs/web.md are taken as `make screenshots`
takes them.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from e2e.harness.product.accessibility import findings
from e2e.harness.product.browser import Browser, Visit
from e2e.harness.product.page_scene import scene
from e2e.harness.product.pictures import (
    REGIONS,
    blank_regions,
    digest_in,
    note_of,
    regions_in,
    share_that_differs,
    words_in,
)
from e2e.screenshots import AT, FOLDER, SHOTS, take

PAGE = Path(__file__).parents[2] / "docs/web.md"
MOST_BYTES = 120_000
MOST_DIFFERENT = 0.05
"""Of a picture's blocks: fonts are not the same on every machine."""


@pytest.fixture(scope="module")
def troubled(_loopback_only: None) -> Iterator[str]:
    with scene(time.time(), trouble=True) as origin:
        yield origin


@pytest.fixture(scope="module")
def calm(_loopback_only: None) -> Iterator[str]:
    with scene(time.time(), trouble=False) as origin:
        yield origin


@pytest.fixture(scope="module")
def loaded(_loopback_only: None) -> Iterator[str]:
    with scene(time.time(), trouble=True, load_age=40.0) as origin:
        yield origin


@pytest.fixture(scope="module")
def overdue(_loopback_only: None) -> Iterator[str]:
    with scene(time.time(), trouble=True, load_age=400.0, failing="unreachable") as origin:
        yield origin


def opened(visit: Visit) -> None:
    """Unfold all that can be."""
    visit.wait_for_text("#map", "web · ")
    visit.page.locator(".chart").wait_for()
    visit.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    visit.page.locator("[data-condition='web/LimitReached']").click()
    visit.page.locator("[data-condition='batch/Ready']").click()
    visit.wait_for_text(".condition-text >> nth=1", "LimitReached is True: AutoscalerLimit")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_page_fits_and_axe_finds_nothing_wrong(browser: Browser, troubled: str, width: int, dark: bool) -> None:
    with browser.visit(troubled, width=width, dark=dark) as visit:
        opened(visit)
        assert findings(visit) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        cut = "[...document.querySelectorAll('button, h1, h2, h3, dd, .message, .notice')]"
        cut += (
            ".filter((part) => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).display !== 'inline')"
        )
        assert visit.page.evaluate(f"{cut}.map((part) => part.textContent)") == []
        visit.page.click("text=More about AutoscalerLimit")
        visit.wait_for_text(".reason:target", "The autoscaler has reached a maximum of its own.")
        assert findings(visit) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.complaints == []
        assert visit.strangers == []


BARS = """() => Object.fromEntries(['load', 'away'].map((name) => {
  const colour = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const canvas = document.querySelector("[data-group='web'] canvas");
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) if (wanted.every((part, index) => data[at + index] === part)) found += 1;
  return [name, found > 200];
}))"""
"""Whether the map of `web`, none of whose nodes is crossed out, has bars of load, and grey ones."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_map_shows_load_beside_requests_and_axe_finds_nothing_wrong(
    browser: Browser, loaded: str, width: int, dark: bool
) -> None:
    with browser.visit(loaded, width=width, dark=dark) as visit:
        opened(visit)
        visit.wait_for_text("#node-load", "Really used: ")
        visit.wait_for_text("#node-load", "% of cpu where pods request ")
        visit.wait_for_text("#node-load", "Of 1 node it is not known.")
        visit.wait_for_text("#load-legend", "bar at the right: really used")
        visit.wait_for_text("#node-used", "Used (cpu / memory)")
        assert visit.page.locator("#node-rows tr").first.locator("td").count() == 9
        assert visit.page.evaluate(BARS) == {"load": True, "away": False}
        visit.page.locator("[data-group='web']").focus()
        visit.wait_for_text("#node-detail", "Really used over 5 min: cpu ")
        visit.page.keyboard.press("End")
        visit.wait_for_text("#node-detail", "What it really uses is not known.")
        assert findings(visit) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.complaints == []
        assert visit.strangers == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_load_that_is_too_old_is_grey_and_the_page_says_why(browser: Browser, overdue: str, dark: bool) -> None:
    with browser.visit(overdue, dark=dark) as visit:
        opened(visit)
        visit.wait_for_text("#node-load", "What nodes really use is not known: the newest figures are 6 min old.")
        visit.wait_for_text("#node-load", "The load watcher cannot be reached.")
        assert "muted" in (visit.page.locator("#node-load").get_attribute("class") or "")
        assert visit.page.evaluate(BARS) == {"load": False, "away": True}
        visit.wait_for_text("#node-rows", "old: ")
        assert findings(visit) == []
        assert visit.complaints == []


def test_where_no_load_watcher_is_named_the_page_has_nothing_of_load(browser: Browser, troubled: str) -> None:
    with browser.visit(troubled) as visit:
        opened(visit)
        assert [visit.page.locator(part).is_visible() for part in ("#node-load", "#load-legend", "#node-used")] == (
            [False] * 3
        )
        assert visit.page.locator("#node-rows tr").first.locator("td").count() == 8
        assert visit.page.evaluate(BARS) == {"load": False, "away": False}
        assert "eally use" not in visit.text("main")


def test_grey_figures_can_still_be_read(browser: Browser) -> None:
    with scene(time.time() - 100, trouble=True) as origin, browser.visit(origin) as visit:
        visit.page.route("**/api/events", lambda route: route.abort())
        visit.page.reload()
        visit.wait_for_text("#connection", "trying again")
        visit.wait_for_text("#headline", "Not known")
        assert findings(visit) == []
        visit.complaints.clear()  # of the connection that is cut off here


def test_a_problem_stands_with_its_remedy_and_conditions_are_said_positively(browser: Browser, troubled: str) -> None:
    with browser.visit(troubled) as visit:
        visit.wait_for_text("[data-policy=web] .problem", "A limit is reached: max node group size reached (12)")
        visit.wait_for_text("[data-policy=web] .problem", "What to do: raise the node group's or NodePool's maximum")
        visit.wait_for_text("[data-policy=web] .policy-head", "AutoscalerLimit")
        assert visit.page.locator("[data-policy=batch] .problem").count() == 0
        chips = visit.page.locator("[data-policy=batch] .conditions button").all_inner_texts()
        assert "✓ No limit reached" in chips
        assert not [text for text in chips if re.search("True|False", text)]
        visit.wait_for_text("[data-policy=batch]", "Why this much: 1700m/4Gi is enough for 99.3% of the pods")
        visit.wait_for_text("[data-policy=web]", "Why this much: it is 20% of the 97500m cpu and 239Gi memory")
        text = visit.text("main")
        assert not re.search(r"cpu_millis|memory_bytes|\d (Gi|Mi)\b|\bcores?\b", text), "as Kubernetes writes them"


def test_empty_nodes_and_what_they_cost_are_remarked_on(browser: Browser, troubled: str) -> None:
    with browser.visit(troubled) as visit:
        remark = "4 nodes of 44 run no pod but those of DaemonSets: 2 are kept for placeholders"
        visit.wait_for_text("#node-remark", remark)
        visit.wait_for_text("#figures", "EUR per month")
        visit.wait_for_text("[data-policy=web]", "It costs ")
        visit.wait_for_text("#node-remark", "They cost 1.6 EUR per hour, 1168 EUR per month.")


def test_container_pools_are_shown_where_there_are_any(browser: Browser, troubled: str, calm: str) -> None:
    with browser.visit(troubled) as visit:
        visit.wait_for_text("#pools", "media/thumbnail")
        first, second = visit.page.locator("#pool-rows tr").all_inner_texts()
        assert first.split()[:4] == ["media/transcode", "3", "100", "40"]
        assert "! ResourceQuotas of namespace media let in 12 more of its pods" in first
        assert second.split()[:4] == ["media/thumbnail", "14", "100", "9"]
        assert "✓ in the plan" in second
        assert "13 s ago" in second
    with browser.visit(calm) as visit:
        visit.wait_for_text("#map", "web · ")
        assert visit.page.locator("#pools").bounding_box() is None


def test_there_is_room_for_companions_and_it_shows_nothing_while_there_are_none(
    browser: Browser, troubled: str
) -> None:
    with browser.visit(troubled) as visit:
        visit.wait_for_text("#map", "web · ")
        room = visit.page.locator("#companions")
        assert room.bounding_box() is None
        room.evaluate("(room) => room.append(document.createElement('section'), document.createElement('section'))")
        boxes = [part.bounding_box() for part in room.locator("section").all()]
        assert [box is not None and box["width"] > 400 for box in boxes] == [True, True]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert boxes[0]["y"] == boxes[1]["y"], "side by side where the page is wide"


def test_the_timeline_has_ranges_and_one_spike_does_not_flatten_it(browser: Browser, troubled: str) -> None:
    with browser.visit(troubled) as visit:
        visit.page.locator(".chart .hour").first.wait_for()

        def span() -> int:
            first, *_, last = (
                sum(int(part) * unit for part, unit in zip(text.split(":"), (3600, 60, 1), strict=False))
                for text in visit.page.locator(".chart .hour").all_text_contents()
            )
            return (last - first) % 86400

        assert 1140 <= span() <= 1260, "the twenty minutes that there are"
        visit.page.select_option("#timeline-range", "600")
        assert 540 <= span() <= 660
        visit.page.select_option("#timeline-range", "86400")
        assert 1080 <= span() <= 1320
        visit.page.select_option("#timeline-range", "3600")
        spiked = """async () => {
          const { TimelineChart } = await import('/static/timeline.js');
          const chart = new TimelineChart();
          const step = (cpu) => [cpu, 4000, 2 ** 30, 2 ** 30, 0];
          const at = Array.from({ length: 100 }, (_, index) => 1_800_000_000 + 10 * index);
          const days = { at, policies: { web: at.map((_, index) => step(index === 50 ? 90_000 : 5000)) } };
          chart.start(days, { at: [], policies: {} }, { leading: true, at: 1, intervalSeconds: 10 });
        }"""
        visit.page.evaluate(spiked)
        visit.wait_for_text("#timeline-note", "A peak of 90 at 09:08:20 is cut off (▲), so that the rest is seen.")
        assert "6250m" in visit.page.locator(".chart .mark").all_text_contents()
        assert visit.page.locator(".chart .peak").count() == 1


def test_the_pictures_of_the_docs_are_of_todays_page_with_its_words_and_nothing_blank(
    browser: Browser, tmp_path: Path
) -> None:
    named = set(re.findall(r"\(pictures/(page[\w-]*\.png)\)", PAGE.read_text()))
    assert named == {shot.name for shot in SHOTS}
    for shot in SHOTS:
        taken = take(browser, shot, tmp_path)
        assert ("Slack is missing" if shot.trouble else "Your slack is") in taken.words
        assert "web" in taken.words
        assert {"#headline", "#figures", "#policy-list"} <= taken.regions.keys()
        old = f"docs/pictures/{shot.name} is of an older page; run: make screenshots"
        with Image.open(taken.path) as fresh, Image.open(FOLDER / shot.name) as kept:
            assert fresh.size == kept.size == (shot.width, shot.height)
            assert blank_regions(fresh, taken.regions) == []
            assert blank_regions(kept, taken.regions) == []
            assert digest_in(FOLDER / shot.name) == digest_in(taken.path), old
            assert share_that_differs(fresh, kept) < MOST_DIFFERENT, old
        assert (FOLDER / shot.name).stat().st_size < MOST_BYTES


def test_a_picture_that_is_blank_moved_or_of_other_words_is_found(browser: Browser, tmp_path: Path) -> None:
    taken = take(browser, SHOTS[0], tmp_path)
    with Image.open(taken.path) as shown:
        blank = Image.new("RGB", shown.size, "white")
        assert blank_regions(blank, taken.regions) == list(taken.regions)
        assert share_that_differs(shown, blank) > MOST_DIFFERENT
        moved = shown.convert("RGB")
        moved.paste(shown.convert("RGB").crop((0, 300, shown.width, shown.height - 40)), (0, 340))
        assert share_that_differs(shown, moved) > MOST_DIFFERENT
        shown.save(tmp_path / "other.png", pnginfo=note_of(taken.words.replace("slack", "room", 1)))
    assert digest_in(tmp_path / "other.png") != digest_in(taken.path)


def test_the_picture_of_a_page_that_lost_a_part_or_a_word_is_found(browser: Browser) -> None:
    shot = SHOTS[0]
    with (
        scene(AT, trouble=False) as origin,
        browser.visit(origin, width=shot.width, height=shot.height, at=AT) as visit,
    ):
        visit.wait_for_text("#map", "web · ")
        words = words_in(visit, shot.height)
        assert len(words.split()) > 200
        assert set(regions_in(visit, shot.width, shot.height)) == set(REGIONS)
        visit.page.evaluate("document.querySelector('#timeline').remove()")
        visit.page.evaluate("document.querySelector('#timeline-title').textContent = 'Time'")
        visit.page.evaluate("document.querySelector('#map').hidden = true")
        visit.page.evaluate("document.querySelector('#timeline-note').id = 'timeline'")
        assert "#map" not in regions_in(visit, shot.width, shot.height)
        assert words_in(visit, shot.height) != words
