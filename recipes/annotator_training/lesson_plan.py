"""Which questions the annotator is asked, how often in which stage, and how many at a time."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from recipes.annotator_training import attribute_questions, concept_questions, judgement_questions


class Task(NamedTuple):
    """One kind of question."""

    question: Callable  # (rng, pool) -> (text, answer, picture)
    weight: float  # in the mixture of the stage "tasks"
    share: float  # of `batch_size` that is a batch of it: less where texts are long
    is_prompt: bool = True  # of the papers' kinds; else a help in learning, which no one asks later


_choice = concept_questions.ask_choice
_attribute = attribute_questions.ask_attribute
TASKS = {
    "chain from an image": Task(concept_questions.ask_chain_image, 0.15, 0.25),
    "chain from a class": Task(concept_questions.ask_chain_class, 0.04, 0.25),
    "choice from an image": Task(partial(_choice, "image"), 0.16, 0.5),
    "choice from concepts": Task(partial(_choice, "concepts"), 0.20, 0.375),
    "choice from both": Task(partial(_choice, "both"), 0.07, 0.25),
    "choice from nothing": Task(partial(_choice, "nothing"), 0.01, 0.5),
    "name from an image": Task(concept_questions.ask_name, 0.06, 0.75),
    "name from concepts": Task(concept_questions.ask_name_of_concepts, 0.05, 0.375, False),
    "five concepts": Task(concept_questions.ask_top5, 0.04, 0.375),
    "reasoning": Task(concept_questions.ask_reasoning, 0.03, 0.25),
    "rating": Task(attribute_questions.ask_rating, 0.06, 0.375),
    "attribute": Task(_attribute, 0.08, 0.375),
    "attribute of a portrait": Task(partial(_attribute, world="portraits"), 0.05, 0.375),
    "judgement": Task(judgement_questions.ask_judgement, 0.08, 0.125),
    "judgement of nothing": Task(judgement_questions.ask_without_picture, 0.06, 0.125, False),
    "presence": Task(attribute_questions.ask_presence, 0.06, 0.5, False),
    "repeat": Task(judgement_questions.ask_repeat, 0.08, 0.25, False),
    "seen": Task(judgement_questions.ask_seen, 0.12, 0.75, False),
    "same": Task(judgement_questions.ask_same, 0.1, 1, False),
    "value": Task(attribute_questions.ask_value, 0.08, 0.75, False),
    "letters": Task(concept_questions.ask_letters, 0, 1, False),
}
LETTERS_FIRST = {"letters": 0.3, "same": 0.7}
_CHOICES = {  # what the stage of choices adds to the weights
    "letters": 0.3,
    "chain from an image": 0.15,
    "choice from an image": 0.4,
    "choice from concepts": 0.6,
    "choice from both": 0.15,
    "name from concepts": 0.15,
    "rating": 0.1,
    "attribute": 0.08,
}
_LAST = {  # what the last stage adds, beside half of the above
    "judgement": 1.2,
    "chain from an image": 0.2,
    "five concepts": 0.15,
    "reasoning": 0.2,
    "name from an image": 0.2,
    "presence": 0.1,
    "value": 0.2,
    "rating": 0.3,
    "attribute": 0.2,
    "attribute of a portrait": 0.3,
}
_JUDGEMENTS = {
    "judgement": 0.7,
    "seen": 0.1,
    "repeat": 0.04,
    "same": 0.07,
    "judgement of nothing": 0.05,
    "name from an image": 0.04,
}


def mixtures() -> dict[str, dict[str, float]]:
    """The weights of the tasks in each stage: "letters", "tasks", "choices", "last" and "judge"."""
    tasks = {name: task.weight for name, task in TASKS.items() if name != "letters"}
    choices = {name: tasks.get(name, 0) + _CHOICES.get(name, 0) for name in TASKS}
    last = {name: tasks.get(name, 0) + _CHOICES.get(name, 0) / 2 for name in TASKS}
    for name, weight in _LAST.items():
        last[name] += weight
    stages = {"letters": LETTERS_FIRST, "tasks": tasks, "choices": choices, "last": last}
    return stages | {"judge": _JUDGEMENTS}
