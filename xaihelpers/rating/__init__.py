"""Rating by people: a blinded panel in the notebook, and the SQLite file in which every answer is kept at once."""
from .items import FORMS, QUESTIONS, Choice, Item, Page, RatingError, choices, prepare
from .panel import RatingPanel, panel
from .store import Study, export, open_study, order_of, page_of, rate, rated, ratings, ratings_file, studies, undo

__all__ = ["FORMS", "QUESTIONS", "Choice", "Item", "Page", "RatingError", "RatingPanel", "Study", "choices", "export", "open_study", "order_of", "page_of",
           "panel", "prepare", "rate", "rated", "ratings", "ratings_file", "studies", "undo"]
