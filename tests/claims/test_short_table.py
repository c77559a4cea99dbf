"""The screen with all verdicts: every claim once, in lines that fit, with the numbers of the verdicts."""

import re

from planted import planted

from weakspots import claims
from weakspots.claims import summary
from weakspots.claims.report import to_markdown, to_terminal


def numbers(text):
    return re.findall(r"\d[\d.,]*\d|\d", text)


def test_the_screen_has_every_claim_once_in_lines_that_fit_with_the_verdicts_numbers():
    frame = claims.to_frame(claims.judge(planted()))
    whole = frame[frame["model"].isna()].set_index("claim")
    lines = summary.lines(frame)
    assert sorted(line.claim for line in lines) == sorted(whole.index)
    for line in lines:
        assert line.status == whole.loc[line.claim, "status"]
        assert set(numbers(line.measured)) <= set(numbers(whole.loc[line.claim, "value"]))
    for text in (to_markdown(frame).split("## What")[0], to_terminal(frame).split("\nIn full:")[0]):
        assert max(map(len, text.splitlines())) <= 120
        assert all(line.measured in text for line in lines)


def test_every_claim_has_a_title_that_is_not_cut_and_none_has_that_of_another():
    titles = [claim.title for claim in claims.CLAIMS]
    assert len(set(titles)) == len(titles)
    assert all(0 < len(title) <= summary.NAME for title in titles)


def test_the_papers_column_is_the_first_clause_of_what_the_paper_gives_and_seldom_cut():
    given = [claim for claim in claims.CLAIMS if claim.published]
    shown = [summary.published(claim.id) for claim in given]
    for claim, words in zip(given, shown, strict=True):
        assert claim.published().startswith(words.removesuffix(summary.CUT))
    assert sum(words.endswith(summary.CUT) for words in shown) <= 1
