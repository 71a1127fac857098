"""What the parameters of a run must hold, and how its answers are sampled."""

from collections.abc import Sequence

from xaihelpers.parameters import ParameterError


def require_some(**parameters: int | Sequence[str]) -> None:
    """Check that no list is empty and no count below 1.

    parameters: by name. Raises ParameterError, which names the first that is.
    """
    for name, value in parameters.items():
        if isinstance(value, int):
            if value < 1:
                raise ParameterError(f"{name} is {value}: at least 1 is needed")
        elif not len(value):
            raise ParameterError(f"{name} is empty: at least one name is needed")


def sampling(seed: int, temperature: float) -> dict[str, object]:
    """The settings of `ask.ask`; at temperature 0 nothing is drawn, and one answer serves every seed."""
    return {"temperature": temperature, "seed": seed if temperature else 0}
