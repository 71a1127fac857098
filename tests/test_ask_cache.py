"""Asking, and the cache of answers: asked once, kept one by one, nothing lost whatever befalls the file."""

import logging
import multiprocessing
import sqlite3
from collections import Counter
from contextlib import closing

import diskcache
import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask.cache import AnswersOnDisk


class Model:
    """Answers with the question's last word; fails where told to."""

    def __init__(self, identity="m 1", fails=(), stops_after=None):
        self.name, self.identity, self.fails, self.stops_after = "m", identity, set(fails), stops_after
        self.asked, self.warnings = [], Counter()

    def answer(self, requests, seed, temperature):
        self.warnings = Counter()
        for position in reversed(range(len(requests))):  # in an order of its own
            if self.stops_after is not None and len(self.asked) >= self.stops_after:
                raise KeyboardInterrupt
            word = requests[position].turns[-1].text.split()[-1]
            self.asked.append(word)
            answer = ask.Answer(f"{word}, {seed}", tokens_in=1000, tokens_out=10, seconds=0.5)
            yield position, ask.Answer(error="broken") if word in self.fails else answer


@pytest.fixture(autouse=True)
def answers_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "answers"


@pytest.fixture
def logged(caplog, monkeypatch):
    """All that the package logs, as a list of messages."""
    caplog.set_level(logging.INFO, "xaihelpers")
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    monkeypatch.setattr(logging.getLogger("xaihelpers"), "handlers", [handler])
    return messages


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


def words(n):
    return [ask.request(f"question w{i}") for i in range(n)]


def texts(n):
    return [f"w{i}, 0" for i in range(n)]


def asked_texts(requests, model=None):
    return [answer.text for answer in ask.ask(model or Model(), requests)]


class TestAsking:
    def test_answers_come_in_the_order_of_the_requests_and_equal_ones_are_asked_once(self, logged):
        model = Model()
        answers = ask.ask(model, [*words(5), *words(3)])
        assert [answer.text for answer in answers] == [*texts(5), *texts(3)]
        assert sorted(model.asked) == [f"w{i}" for i in range(5)]
        assert logged == ["m: 5 asked, 0 from the cache"]
        again = Model()
        kept = ask.ask(again, words(5))
        assert again.asked == [] and kept == answers[:5] and logged[-1] == "m: 0 asked, 5 from the cache"
        assert [answer.cached for answer in (*answers, *kept)] == [False] * 8 + [True] * 5

    def test_what_an_answer_depends_on_is_asked_anew(self, picture, tmp_path):
        model, other = Model(), tmp_path / "other.png"
        Image.new("RGB", (6, 4), (10, 10, 200)).save(other)
        base = ask.request("which w", picture, "AB", max_tokens=5)
        ask.ask(model, [base])
        ask.ask(
            model,
            [
                ask.request("which v", picture, "AB", max_tokens=5),
                ask.request("which w", other, "AB", max_tokens=5),
                ask.request("which w", picture, "ABC", max_tokens=5),
                ask.request("which w", picture, "AB", max_tokens=6),
                ask.request("which w", picture, "AB", "Be short.", 5),
                ask.request("which w", [picture, picture], "AB", max_tokens=5),
            ],
        )
        ask.ask(model, [base], seed=1)
        ask.ask(model, [base], temperature=0.5)
        assert len(model.asked) == 9
        same = tmp_path / "renamed.png"
        same.write_bytes(picture.read_bytes())
        ask.ask(model, [ask.request("which w", same, "AB", max_tokens=5)])
        assert len(model.asked) == 9, "only the content of an image counts"
        retrained = Model("m 2")
        ask.ask(retrained, [base])
        assert len(retrained.asked) == 1

    def test_an_interruption_keeps_what_came_and_the_next_run_goes_on(self, logged):
        broken, whole = Model(stops_after=3), Model()
        with pytest.raises(KeyboardInterrupt):
            ask.ask(broken, words(8))
        assert logged == ["m: 3 asked, 0 from the cache, 5 left"]
        assert asked_texts(words(8), whole) == texts(8)
        assert not set(whole.asked) & set(broken.asked) and len(whole.asked) == 5

    def test_errors_are_counted_logged_and_asked_again(self, logged):
        answers = ask.ask(Model(fails=["w1", "w3"]), words(5), progress=False)
        assert [bool(answer.error) for answer in answers] == [False, True, False, True, False]
        assert "2 without an answer (first: broken)" in logged[-1], "logged without progress, too"
        again = Model()
        assert not any(answer.error for answer in ask.ask(again, words(5)))
        assert sorted(again.asked) == ["w1", "w3"]

    def test_progress_is_shown_where_it_is_wanted(self, capsys, logged):
        ask.ask(Model(), words(3))
        assert "asking m" in capsys.readouterr().err
        logged.clear()
        ask.ask(Model(), words(4), progress=False)
        assert "".join(capsys.readouterr()) == "" and logged == []

    def test_everything_in_an_answer_is_kept(self):
        whole = ask.Answer("A", "because", {"A": 0.7, "B": 0.3}, 12, 3, 0.25, True)

        class One(Model):
            def answer(self, requests, seed, temperature):
                yield 0, whole

        ask.ask(One(), words(1))
        (kept,) = ask.ask(Model(), words(1))
        assert kept == whole and kept.cached and kept.choice == "A" and kept.truncated

    def test_images_that_cannot_be_read_are_named_before_anything_is_asked(self, tmp_path):
        model = Model()
        with pytest.raises(ask.AskError, match="missing.png: no image that can be read .*leave it out"):
            ask.ask(model, [*words(2), ask.request("q", tmp_path / "missing.png")])
        assert model.asked == []


class TestLoading:
    def test_the_ways_to_name_a_model(self, monkeypatch):
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        message = "server:gpt: 2 answers are not among those kept, and no server is named to ask: set OPENAI"
        with pytest.raises(ask.AskError, match=message):
            ask.ask(ask.load_vlm("server:gpt"), words(2))
        with pytest.raises(ask.AskError, match="must be auto, cpu or cuda, not 'tpu'"):
            ask.load_vlm("anything", device="tpu")


class TestDamage:
    @pytest.mark.parametrize("damage", ["garbage", "half", "of another program"])
    def test_a_damaged_file_is_set_aside_and_a_new_one_begun(self, damage, answers_folder, logged):
        asked_texts(words(40))
        file = answers_folder / "cache.db"
        content = file.read_bytes()
        if damage == "of another program":
            file.unlink()
            with closing(sqlite3.connect(file)) as connection, connection:
                connection.execute("CREATE TABLE Cache (a)")
        else:
            file.write_bytes(
                {"garbage": b"not a database" * 1000, "half": content[: len(content) // 2]}[damage]
            )
        assert asked_texts(words(40)) == texts(40)
        again = Model()
        assert asked_texts(words(40), again) == texts(40) and again.asked == [], "kept in the new file"
        assert (answers_folder.with_name("answers.damaged") / "cache.db").is_file()
        assert sum("is damaged" in line and "set aside as answers.damaged" in line for line in logged) == 1
        assert not any("cannot be kept" in line for line in logged)


@pytest.mark.parametrize(
    "error",
    [sqlite3.OperationalError("database or disk is full"), OSError(30, "Read-only file system")],
    ids=str,
)
def test_answers_that_cannot_be_kept_are_used_and_a_warning_says_so_once(
    error, monkeypatch, answers_folder, logged
):
    kept, write = [], diskcache.Cache.set

    def refuse(cache, key, value, **more):
        if kept:
            raise error
        kept.append(key)
        return write(cache, key, value, **more)

    with monkeypatch.context() as full:
        full.setattr(diskcache.Cache, "set", refuse)
        assert asked_texts(words(4)) == texts(4)
    (warning,) = [line for line in logged if "Answers cannot be kept in" in line]
    assert str(error) in warning and "Make room or permit" in warning
    assert not answers_folder.with_name("answers.damaged").exists(), "the file is sound"
    again = Model()
    assert asked_texts(words(4), again) == texts(4) and len(again.asked) == 3


def hold_and_write(name, ready, go, messages):
    """A process that opens the cache, says so, and when told to writes 100 answers."""
    handler = logging.Handler()
    handler.emit = lambda record: messages.put(record.getMessage())
    logging.getLogger("xaihelpers").handlers = [handler]
    disk = AnswersOnDisk()
    ready.release()
    go.wait(60)
    for number in range(100):
        disk.keep(f"{name} {number}", ask.Answer(str(number)))
    disk.close()


@pytest.mark.parametrize("damaged", [False, True])
def test_two_processes_write_into_one_file(damaged, answers_folder):
    """They hold the cache open; damage under both is repaired once, and nothing new is lost."""
    context = multiprocessing.get_context("fork")
    ready, go, messages = context.Semaphore(0), context.Event(), context.SimpleQueue()
    processes = [context.Process(target=hold_and_write, args=(name, ready, go, messages)) for name in "ab"]
    for process in processes:
        process.start()
    assert ready.acquire(timeout=60) and ready.acquire(timeout=60)
    if damaged:
        for file in answers_folder.glob("cache.db*"):
            file.write_bytes(b"garbage" * 3000)
    go.set()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    said = [messages.get() for _ in iter(messages.empty, True)]
    assert len(said) == damaged and all("set aside as answers.damaged" in line for line in said)
    with closing(AnswersOnDisk()) as disk:
        for name in "ab":
            assert all(disk.get(f"{name} {number}") == ask.Answer(str(number)) for number in range(100))


def test_a_row_that_cannot_be_read_is_asked_anew(answers_folder):
    asked_texts(words(3))
    with diskcache.Cache(str(answers_folder), disk=diskcache.JSONDisk) as rows:
        keys = list(rows)
        rows[keys[0]] = {"text": "of another version", "unknown": 1}
        rows[keys[1]] = 5
    again = Model()
    assert asked_texts(words(3), again) == texts(3) and len(again.asked) == 2
