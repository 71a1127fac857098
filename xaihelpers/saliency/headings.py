"""Titles and captions of the recorded tables that several notebooks fill (paper autoxplain).

They stand here once, so that a table has the same heading in the report whichever notebook ran last.
"""

HEADINGS = {  # by table, as `title` and `caption` of `Run.record`
    "3": {
        "title": "The attention confusion matrix",
        "caption": "Correct or wrong by high or low score in %, and the average score, of classifiers and "
        "segmenters (notebook 43) and of normal and biased models (notebook 44).",
    },
    "text": {
        "title": "Numbers in the text",
        "caption": "Prompts (section 4.2) and biased models (section 4.3).",
    },
}
