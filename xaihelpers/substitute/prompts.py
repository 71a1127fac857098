"""What a pair is asked for: the prompts of the reference and of its guide, in the paper's three forms."""
import json
import re
from pathlib import Path

from .. import paths
from ..birds import normalise_attribute, phrase


class SubstituteError(ValueError):
    """A pipeline, a pair, an attribute or a SUB folder is not as needed; the message names it and the remedy."""


FORMS = paths.PROJECT / "data" / "prompts" / "sub_pairs.json"
SHAPED = {"bill_shape": "a beak", "bill_length": "a beak", "tail_shape": "a tail", "wing_shape": "wings", "head_pattern": "a head", "shape": "a build", "size": "a size"}


def category(attribute: str) -> str:
    """"color", "shape" or "pattern": which of the paper's three forms (section 4.1) an attribute takes."""
    group = normalise_attribute(attribute).removeprefix("has_").split("::")[0]
    return "shape" if group in SHAPED else group.rsplit("_", 1)[-1]


def named(bird: str) -> str:
    """A bird with its article: "Blue_Jay" -> "a Blue Jay", "Anna Hummingbird" -> "an Anna Hummingbird"."""
    name = re.sub(r"^\d+\.", "", bird).replace("_", " ").strip()
    return f"{'an' if name[:1].lower() in 'aeio' and not name.lower().startswith('eu') else 'a'} {name}"


def pair_prompts(reference: str, attribute: str, guide: str = "", forms: str | Path = FORMS) -> tuple[str, str]:
    """The prompts c_R and c_G of a substitution (sub, section 4.1, appendix D).

    reference: a bird's name. attribute: `group::value` or `group--value`. guide: a bird that has the attribute; "" takes "bird" for colours, and for shapes and patterns the paper's
    guide (appendix B). forms: a JSON file like data/prompts/sub_pairs.json. Raises SubstituteError: no guide is known for the attribute, the file has no such form.
    """
    attribute, kind = normalise_attribute(attribute), category(attribute)
    try:
        known = json.loads(Path(forms).read_text(encoding="utf-8"))
        form = known[kind]
        guide = guide or ("bird" if kind == "color" else known["guides"].get(attribute, ""))
        if not guide:
            raise SubstituteError(f"{attribute}: a {kind} is taken from a guide bird, and the paper names none for this one: pass guide= with a bird that has it")
        fields = {"reference": named(reference), "guide": named(guide), "attribute": phrase(attribute), "part": SHAPED.get(attribute.removeprefix("has_").split("::")[0], "")}
        return form["reference"].format(**fields), form["guide"].format(**fields)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SubstituteError):
            raise
        raise SubstituteError(f"{forms}: no file of prompt forms ({type(error).__name__}: {error}); it needs color, shape and pattern, each with reference and guide, and guides") from error
