"""What a judge of attention maps is shown and asked, and how its answer is read."""

import pytest
import torch
from PIL import Image

from xaihelpers.ask import Answer
from xaihelpers.saliency import judging
from xaihelpers.saliency.judging import judge, parse_judgement, parse_score


def test_scores_are_read_and_never_guessed():
    score_of = {
        "**Score:** 2/5": 2,
        "Score: 4-5": None,
        '{"evaluation": "It lies, score: 2, so", "justification": "b", "score": 4}': 4,
        '{"evaluation": "a", "justification": "b", "score": 4': 4,
        "I give it 4 points.": None,
        "Score: -1": None,
        "Score: 4\nEvaluation: x\nScore: 1": None,
        "Score (0-5): 4": 4,
        "### Score\n4": 4,
        "Score: 1,000": None,
        "Score: 4 (on a scale of 1-10)": None,
        "Score: 3 ½": 3.5,
        "Score: 3 and a half": None,
        "Score：４／５": 4,
        "Score: 7/10": None,
        "Score: 4 von 10": None,
        "Score: between 3 and 4": None,
        "Score: 4 (or 3)": None,
        "Score: 3 - half of it is attended": 3,
        '```json\n{"evaluation": "It lies, score: 2, so", "score": 4}\n```': 4,
        '{"score": 4, "score": 2}': None,
        '{"score": 4}\nScore: 2': None,
        '{"score": "4 out of 5"}': 4,
        '{"score": 7}': None,
        "Score: 4 on a 10-point scale": None,
        "Score: 4 on a 5-point scale": 4,
        "1. **Evaluation**: On the head.\n2. **Justification**: Most of it.\n3. **Score**: 4": 4,
        "{'Evaluation': 'On the head.', 'Justification': 'Most of it.', 'Score': 4}": 4,
        '{"evaluation": "a", "score": [3, 4]}': None,
    }
    for text, score in score_of.items():
        assert parse_judgement(text) == score, text
    assert parse_judgement("Evaluation: x\nScore: 1", cut=True) is None, "of 1.5 or of 1/10, perhaps"
    assert parse_judgement("Evaluation: x\nScore: 1\nIt is", cut=True) == 1
    assert parse_judgement("Well.\nScore: 1\nOr is it", cut=True) is None, "the draft of a thought"
    for text, score in {"4/4": 4, "2,5": 2.5, "4/10": None, "1 to 4": None, "5": None}.items():
        assert parse_score(text, highest=4) == score, text


def test_a_judge_is_asked_by_the_papers_prompts_and_why_there_is_no_score_is_told_apart(monkeypatch, caplog):
    asked = []
    answers = [
        Answer("Evaluation: x\nJustification: y\nScore: 2"),
        Answer(error="no connection"),
        Answer("Evaluation: x", truncated=True),
        Answer("I'm sorry, but I can't judge people."),
        Answer("It looks fine."),
    ]

    def ask(model, requests, **settings):
        asked.extend(requests)
        return answers

    monkeypatch.setattr(judging, "ask", ask)
    table = judge(
        None, [Image.new("RGB", (8, 8))] * 5, ["Blue Jay", *["cup"] * 4], "heat", "autoxplain_heat_short"
    )
    assert "heat-map" in asked[0].text and "Blue Jay" in asked[0].text and "cup" in asked[1].text
    assert table.score[0] == 2 and table.text[4] == "It looks fine."
    assert table.failure.tolist() == ["", "failed", "truncated", "refused", "unparsable"]
    assert table.score.isna().tolist() == [False, True, True, True, True]
    assert not caplog.records
    answers[:] = [Answer(f"Score: {score}") for score in (0.9, 0.85, 0.2, 1, 0)]
    judge(None, [None] * 5, ["cup"] * 5)
    assert "none of 5 scores from 0 to 5 is above 1: if 1 is the highest, give 5 times" in caplog.text
    images = torch.full((1, 3, 4, 4), 200, dtype=torch.uint8)
    with pytest.raises(ValueError, match="unknown kind 'grey'"):
        judging.judge_images(images, torch.ones(1, 2, 2), "grey")
