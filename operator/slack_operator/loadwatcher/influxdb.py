"""An InfluxDB that answers InfluxQL at `/query`: version 1, or 2 with a database mapped to the bucket."""

import logging
from collections.abc import Iterable

from slack.loadwatcher import influxql
from slack.loadwatcher.promql import InvalidProviderAnswer
from slack.loadwatcher.readings import ReadingKey, Readings
from slack.loadwatcher.sample import LoadSample
from slack.process.outages import Outages
from slack_operator.loadwatcher.http_source import FetchFailed, HttpSource
from slack_operator.loadwatcher.prometheus import own_queries
from slack_operator.loadwatcher.provider import OnQueryError
from slack_operator.loadwatcher.settings import LoadWatcherSettings

log = logging.getLogger(__name__)


class InfluxProvider:
    """One InfluxDB."""

    source = "InfluxDB"
    sample_seconds: float | None = None

    def __init__(self, settings: LoadWatcherSettings, http: HttpSource, on_query_error: OnQueryError) -> None:
        self._own = own_queries(settings)
        self._tag = settings.node_label or influxql.TAG
        self._database = settings.database
        self._http = http
        self._on_query_error = on_query_error
        self._outages = Outages()

    def remember(self, samples: Iterable[LoadSample]) -> None:
        """Do nothing: it has a history."""

    def sample(self, now: float) -> None:
        """Do nothing: it has a history."""

    def fetch(self, now: float) -> Readings:
        """Ask all questions."""
        values: dict[ReadingKey, dict[str, float]] = {}
        for question in influxql.questions(self._own, self._tag, int(now)):
            try:
                form = {"db": self._database, "q": question.query, "epoch": "s"}
                for key, found in influxql.decode(self._http.post("/query", form), self._tag, question).items():
                    values.setdefault(key, {}).update(found)
            except (FetchFailed, InvalidProviderAnswer) as error:
                self._on_query_error(question.type.value)
                where = "" if isinstance(error, FetchFailed) else f"{self._http.address}: "
                if question.required:
                    raise FetchFailed(f"{where}{error} ({question.type})") from None
                if self._outages.is_new(str(error)):
                    log.warning("%s is left out: %s%s", question.type, where, error)
        return Readings(float(int(now)), values)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()
