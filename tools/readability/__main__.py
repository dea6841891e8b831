"""Check texts for users, or print what they measure.

python -m tools.readability                  # the check; exits 1 if a text is above its bound
python -m tools.readability --table          # the figures of each text
python -m tools.readability --show PAGE ...  # what one text lacks, compared with what is wanted
python -m tools.readability --lower          # lower the bounds in allowed.json to what is measured
"""

import argparse
import sys
from collections.abc import Sequence

from tools.readability.limits import (
    TOTAL_WORDS,
    WANTED,
    Figures,
    lowered,
    measure,
    problems,
    read_allowed,
    write_allowed,
)
from tools.readability.texts import Text, all_texts


def print_table(texts: Sequence[Text]) -> None:
    """Print the figures of each text, and the words of all pages."""
    print(f"{'words':>7} {'mean':>5} {'longest':>8} {'refused':>8}  text")
    for text in texts:
        figures = measure(text)
        columns = f"{figures.words:7,} {figures.mean_sentence:5.1f} {figures.longest_sentence:8} {figures.refused:8}"
        print(f"{columns}  {text.name}")
    print(f"{total_words(texts):7,}{'':25}all pages")


def total_words(texts: Sequence[Text]) -> int:
    """How many words the pages for users have together."""
    return sum(text.word_count for text in texts if text.is_page)


def check(texts: Sequence[Text], allowed: dict[str, Figures], most_words: int = TOTAL_WORDS) -> list[str]:
    """Return all problems; none if every text is within its bound."""
    found = [problem for text in texts for problem in problems(text, allowed.get(text.name, WANTED))]
    names = {text.name for text in texts}
    found += [f"allowed.json: there is no text {name}" for name in sorted(set(allowed) - names)]
    if (total := total_words(texts)) > most_words:
        found.append(f"pages for users have {total:,} words, at most {most_words:,} allowed")
    return found


def main() -> int:
    """Run the check, or print figures."""
    parser = argparse.ArgumentParser(prog="python -m tools.readability", description="Check texts for users.")
    parser.add_argument("--table", action="store_true", help="print the figures of each text")
    parser.add_argument("--lower", action="store_true", help="lower the bounds to what is measured")
    parser.add_argument("--show", nargs="+", default=(), metavar="TEXT", help="print what these texts lack")
    options = parser.parse_args()
    texts = all_texts()
    if options.table:
        print_table(texts)
        return 0
    if options.show:
        shown = [problem for text in texts if text.name in options.show for problem in problems(text, WANTED)]
        print("\n".join(shown))
        return 0
    if options.lower:
        write_allowed(lowered(read_allowed(), {text.name: measure(text) for text in texts}))
        return 0
    found = check(texts, read_allowed())
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
