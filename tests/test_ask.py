"""Questions, answers, and the cache between them: asked once, kept one by one, nothing lost."""
import base64
import io
import sqlite3
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import asking, chats


class Model:
    """Answers with the question's last word; fails where told to."""

    def __init__(self, identity="m 1", fails=(), stops_after=None):
        self.name, self.identity, self.fails, self.stops_after = "m", identity, set(fails), stops_after
        self.asked, self.told = [], Counter()

    def answer(self, requests, seed, temperature):
        self.told = Counter()
        for position in reversed(range(len(requests))):  # in an order of its own
            if self.stops_after is not None and len(self.asked) >= self.stops_after:
                raise KeyboardInterrupt
            word = requests[position].turns[-1].text.split()[-1]
            self.asked.append(word)
            yield position, ask.Answer(error="broken") if word in self.fails else ask.Answer(f"{word}, {seed}", tokens_in=1000, tokens_out=10, seconds=0.5)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


def words(n):
    return [ask.request(f"question w{i}") for i in range(n)]


def test_answers_come_in_the_order_of_the_requests_and_equal_ones_are_asked_once(capsys):
    model = Model()
    answers = ask.ask(model, [*words(5), *words(3)])
    assert [answer.text for answer in answers] == [f"w{i}, 0" for i in (0, 1, 2, 3, 4, 0, 1, 2)]
    assert sorted(model.asked) == [f"w{i}" for i in range(5)]
    assert "m: 5 asked, 0 from the cache" in capsys.readouterr().out


def test_a_rerun_asks_nothing_and_gives_the_same(capsys):
    first, again = ask.ask(Model(), words(4)), Model()
    second = ask.ask(again, words(4))
    assert again.asked == [] and first == second
    assert [answer.cached for answer in (*first, *second)] == [False] * 4 + [True] * 4
    assert "m: 0 asked, 4 from the cache" in capsys.readouterr().out


def test_what_an_answer_depends_on_is_asked_anew(picture, tmp_path):
    model, other = Model(), tmp_path / "other.png"
    Image.new("RGB", (6, 4), (10, 10, 200)).save(other)
    base = ask.request("which w", picture, "AB", max_tokens=5)
    ask.ask(model, [base])
    others = [ask.request("which v", picture, "AB", max_tokens=5), ask.request("which w", other, "AB", max_tokens=5), ask.request("which w", (), "AB", max_tokens=5),
              ask.request("which w", picture, "ABC", max_tokens=5), ask.request("which w", picture, "AB", max_tokens=6), ask.request("which w", picture, "AB", "Be short.", 5),
              ask.request("which w", [picture, picture], "AB", max_tokens=5)]
    ask.ask(model, others)
    ask.ask(model, [base], seed=1)
    ask.ask(model, [base], temperature=0.5)
    assert len(model.asked) == 1 + len(others) + 2
    same = tmp_path / "renamed.png"
    same.write_bytes(picture.read_bytes())
    ask.ask(model, [ask.request("which w", same, "AB", max_tokens=5)])
    assert len(model.asked) == 1 + len(others) + 2, "only the content of an image counts"
    retrained = Model("m 2")
    ask.ask(retrained, [base])
    assert len(retrained.asked) == 1


def test_a_picture_in_memory_counts_by_its_pixels():
    palette = [Image.new("P", (2, 2)) for _ in range(2)]
    palette[1].putpalette([9, 9, 9] * 256)
    red = Image.new("RGB", (6, 4), (200, 10, 10))
    keys = chats.request_keys([ask.request("q", image) for image in (red, red.copy(), *palette, Image.new("RGB", (4, 6), (200, 10, 10)))], "m", {})
    assert keys[0] == keys[1] and len(set(keys)) == 4


def test_each_file_is_read_once(picture, monkeypatch):
    read = []
    monkeypatch.setattr(chats.Path, "read_bytes", lambda self, before=chats.Path.read_bytes: read.append(self) or before(self))
    chats.request_keys([ask.request(f"q {i}", [picture, str(picture)]) for i in range(50)], "m", {})
    assert len(read) == 1


def test_an_interruption_keeps_what_came_and_the_next_run_goes_on(capsys):
    broken, whole = Model(stops_after=3), Model()
    with pytest.raises(KeyboardInterrupt):
        ask.ask(broken, words(8))
    assert "m: 3 asked, 0 from the cache, 5 left" in capsys.readouterr().out
    answers = ask.ask(whole, words(8))
    assert not set(whole.asked) & set(broken.asked) and len(whole.asked) == 5
    assert [answer.text for answer in answers] == [f"w{i}, 0" for i in range(8)]


def test_errors_are_counted_told_and_asked_again(capsys):
    answers = ask.ask(Model(fails=["w1", "w3"]), words(5), progress=False)
    assert [bool(answer.error) for answer in answers] == [False, True, False, True, False]
    assert "2 without an answer (first: broken)" in capsys.readouterr().out, "told without progress, too"
    again = Model()
    assert not any(answer.error for answer in ask.ask(again, words(5)))
    assert sorted(again.asked) == ["w1", "w3"]


def test_what_a_model_tells_is_of_this_call(capsys):
    model = Model()
    ask.ask(model, words(1))
    model.told["hiccups"] = 3  # of a call before
    ask.ask(model, words(1))
    assert "hiccups" not in capsys.readouterr().out


def test_price_makes_the_cost_of_fresh_and_kept_answers():
    for price, cost in (((2.0, 30.0), 0.0023), ((4.0, 60.0), 0.0046), ((0.0, 0.0), 0.0)):
        assert [answer.cost for answer in ask.ask(Model(), words(2), price=price)] == pytest.approx([cost] * 2)


def test_progress_shows_tokens_and_cost(capsys):
    ask.ask(Model(), words(3), price=(2.0, 30.0))
    told = capsys.readouterr().err
    assert "asking m" in told and "3,000 tokens in, 30 out, cost 0.0069" in told
    ask.ask(Model(), words(4), progress=False)
    assert "".join(capsys.readouterr()) == ""


def test_a_cache_that_cannot_be_opened_is_told_once_and_loses_nothing(tmp_path, capsys):
    (tmp_path / "cache").write_text("a file in the way")
    assert [answer.text for answer in ask.ask(Model(), words(3))] == ["w0, 0", "w1, 0", "w2, 0"]
    assert capsys.readouterr().out.count("Answers cannot be kept in") == 1


def test_a_disk_that_fills_up_is_told_once_and_loses_nothing(monkeypatch, capsys):
    kept = []

    def full(self, key, value):
        if kept:
            raise sqlite3.OperationalError("database or disk is full")
        kept.append(key)

    monkeypatch.setattr(asking.diskcache.Cache, "__setitem__", full)
    assert [answer.text for answer in ask.ask(Model(), words(4))] == [f"w{i}, 0" for i in range(4)]
    told = capsys.readouterr().out
    assert told.count("Answers cannot be kept in") == 1 and "disk is full" in told


def test_a_broken_database_and_a_broken_row_are_asked_anew(tmp_path, monkeypatch):
    ask.ask(Model(), words(2))
    with asking._answers_on_disk() as disk:
        for key in disk:
            disk[key] = {"text": "of another time", "unknown": 1}
    again = Model()
    assert ask.ask(again, words(2))[0].text == "w0, 0" and len(again.asked) == 2
    for file in (tmp_path / "cache" / "answers").glob("cache.db*"):
        file.write_bytes(b"not a database" * 1000)
    assert [answer.text for answer in ask.ask(Model(), words(2))] == ["w0, 0", "w1, 0"]


def test_everything_in_an_answer_is_kept():
    whole = ask.Answer("A", "because", {"A": 0.7, "B": 0.3}, 12, 3, 0.25, True)

    class One(Model):
        def answer(self, requests, seed, temperature):
            yield 0, whole

    ask.ask(One(), words(1))
    (kept,) = ask.ask(Model(), words(1))
    assert kept == whole and kept.cached and kept.choice == "A"


def test_nothing_to_ask(capsys):
    assert ask.ask(Model(), []) == []


@pytest.mark.parametrize("turns, options, limit, said", [
    ((), (), 5, "ends with the user's turn"), ((ask.Turn("assistant", "A"),), (), 5, "ends with the user's turn"), ((ask.Turn("tool", "x"), ask.Turn("user", "y")), (), 5, "not of tool"),
    ((ask.Turn("user", "x"),), ("A", "A"), 5, "options must be different"), ((ask.Turn("user", "x"),), ("A", ""), 5, "options must be different"), ((ask.Turn("user", "x"),), (), 0, "at least 1")])
def test_requests_that_cannot_be(turns, options, limit, said):
    with pytest.raises(ask.AskError, match=said):
        ask.Request(turns, options, limit)


def test_images_that_cannot_be_read_are_named_before_anything_is_asked(tmp_path):
    model = Model()
    with pytest.raises(ask.AskError, match="missing.png: no image that can be read .*leave it out"):
        ask.ask(model, [*words(2), ask.request("q", tmp_path / "missing.png")])
    assert model.asked == []


def test_half_an_image_is_named(tmp_path, picture):
    Image.effect_noise((80, 60), 90).convert("RGB").save(tmp_path / "half.jpg")
    for name, content in (("half.jpg", (tmp_path / "half.jpg").read_bytes()[:900]), ("half.png", picture.read_bytes()[:50]), ("text.jpg", b"no image")):
        (tmp_path / name).write_bytes(content)
        for use in (chats.open_image, chats.data_url):
            with pytest.raises(ask.AskError, match=f"{name}: no image that can be read"):
                use(tmp_path / name)


def test_data_urls_hold_the_file_or_its_pixels(tmp_path, picture):
    Image.open(picture).save(tmp_path / "red.gif")
    (tmp_path / "wrong.jpg").write_bytes(picture.read_bytes())
    head, content = chats.data_url(picture).split(",")
    assert head == "data:image/png;base64" and base64.b64decode(content) == picture.read_bytes()
    assert chats.data_url(tmp_path / "wrong.jpg") == chats.data_url(picture), "by content, not by name"
    for image in (tmp_path / "red.gif", Image.new("RGBA", (6, 4), (200, 10, 10, 255))):
        opened = Image.open(io.BytesIO(base64.b64decode(chats.data_url(image).split(",")[1])))
        assert opened.format == "PNG" and opened.getpixel((0, 0)) == (200, 10, 10)


@pytest.mark.parametrize("text, apart, answer, reasoning", [
    ("A", "", "A", ""), ("<think>it is red</think>A", "", "A", "it is red"), (" A ", "it is red", "A", "it is red"), ("<think>never ends", "", "", "never ends"),
    ("opened by the template</think>\n\nB", "", "B", "opened by the template"), ("<think>a</think>B<think>c</think>D", "", "BD", "a\nc"), ("<think></think>A", "", "A", ""), ("", "", "", "")])
def test_reasoning_is_split_from_the_answer(text, apart, answer, reasoning):
    assert chats.split_reasoning(text, apart) == (answer, reasoning)


@given(st.text(alphabet="ab <>/think", max_size=60))
def test_no_answer_holds_its_reasoning(text):
    answer, _ = chats.split_reasoning(f"<think>{text}</think>yes")
    assert "yes" in answer and len(answer) <= len(text) + len("yes</think>")


def test_the_ways_to_name_a_model(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ask.AskError, match="server:gpt needs the address of a server in OPENAI_BASE_URL"):
        ask.load_annotator("server:gpt")
    with pytest.raises(ask.AskError, match="must be auto, cpu or cuda, not 'tpu'"):
        ask.load_annotator("anything", device="tpu")
