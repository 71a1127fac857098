"""Rating by people: a blinded panel in the notebook, and the SQLite file that stores every answer at once."""

from xaihelpers.rating.answers import current_answers, export, rate, ratings, undo
from xaihelpers.rating.first_answers import commit, committed
from xaihelpers.rating.items import Item, RatingError, choices, prepare
from xaihelpers.rating.panel import RatingPanel
from xaihelpers.rating.study import Study, item_order, open_study, ratings_file, read_page, studies

__all__ = [
    "Item",
    "RatingError",
    "RatingPanel",
    "Study",
    "choices",
    "commit",
    "committed",
    "current_answers",
    "export",
    "item_order",
    "open_study",
    "prepare",
    "rate",
    "ratings",
    "ratings_file",
    "read_page",
    "studies",
    "undo",
]
