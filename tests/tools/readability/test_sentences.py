"""Sentences of pages, comments, templates: what a reader reads as one, and how many words it has."""

from tools.readability.sentences import (
    CODE,
    comment_sentences,
    markdown_sentences,
    plain_sentences,
    split_sentences,
    template_sentences,
)

PAGE = """# A title

One sentence, in two
lines with `a --flag=1`. And [a link](#x) in another!

```
not. prose. at all.
```

- An item that
  goes on.
- Another

| head | a cell. With two sentences |
|---|---|
"""


def test_a_page_is_divided_into_its_sentences() -> None:
    prose = [sentence.text for sentence in markdown_sentences(PAGE) if sentence.is_prose]
    assert prose == [
        f"One sentence, in two lines with {CODE}.",
        "And a link in another!",
        "An item that goes on.",
        "Another",
    ]


def test_cells_and_headings_are_fragments() -> None:
    fragments = [sentence.text for sentence in markdown_sentences(PAGE) if not sentence.is_prose]
    assert fragments == ["A title", "head", "a cell.", "With two sentences"]


def test_a_number_or_an_abbreviation_ends_no_sentence() -> None:
    assert len(split_sentences("It takes 1.5 s, e.g. On two cores, and 99.9 % of pods.")) == 1
    assert len(split_sentences("It ends here. 12 pods start.")) == 2


def test_words_are_counted_as_a_reader_meets_them() -> None:
    (sentence,) = plain_sentences("Run `resource-slack plan -o json` on kube-scheduler's 1.36 cluster, with 5 % more.")
    assert sentence.word_count == 9


def test_comments_in_a_row_are_one_paragraph_and_one_behind_a_value_is_its_own() -> None:
    text = "# First part of\n# a comment. Second.\nkey: 1 # behind a value\n#\n# Third.\nurl: http://x/#no\n"
    assert [(sentence.text, sentence.is_prose) for sentence in comment_sentences(text)] == [
        ("First part of a comment.", True),
        ("Second.", True),
        ("behind a value", False),
        ("Third.", True),
    ]


def test_a_template_is_read_without_its_directives_and_commands() -> None:
    text = "{{- if .Values.on }}\nThe operator is in {{ .Release.Namespace }}.\n\n   kubectl get pods\n{{- end }}\n"
    assert [sentence.text for sentence in template_sentences(text)] == [f"The operator is in {CODE}."]
