"""What the small model learns from: held-out text stays out, questions have the answers they claim."""

import re

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from draftmeter.measure.prompts import is_right
from draftmeter_training import conversations, essays, questions
from draftmeter_training.corpus import CorpusError, is_held_out, read_corpus
from draftmeter_training.prompts import CATEGORIES, COUNT, MIXED_COUNT, MOST_CHARACTERS, prompt_sets


@pytest.fixture(scope="module")
def corpora():
    return read_corpus()


def test_held_out_files_are_not_trained_on(corpora):
    training, held_out = corpora
    names = {file.name for file in training.code}
    assert not names & {file.name for file in held_out.code}
    assert all(is_held_out(file.name) for file in held_out.code)
    assert not any(part in name.split("/") for name in names for part in ("test", "tests", "site-packages", "encodings"))
    assert 0.04 < len(held_out.code) / len(names) < 0.2


def test_the_corpus_has_one_hash(corpora):
    training, held_out = corpora
    assert training.sha256() == read_corpus()[0].sha256() != held_out.sha256()


def test_a_folder_without_a_library_is_refused(tmp_path):
    (tmp_path / "one.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "latin.py").write_bytes(b"# \xff\n")
    with pytest.raises(CorpusError, match="needs the whole standard library"):
        read_corpus(tmp_path)


def test_code_conversations_are_whole_lines_of_one_file(corpora):
    rng = np.random.default_rng(1)
    texts = ["\n".join(file.lines) for file in corpora[1].code]
    for _ in range(30):
        made = conversations.code(rng, corpora[1])
        head = made.prompt.split("\n", 1)[1]
        whole = [text for text in texts if head in text]
        assert any(made.reply.strip() in text for text in whole)


def test_prose_conversations_join_to_the_passage(corpora):
    rng = np.random.default_rng(2)
    passages = {passage.text for passage in corpora[0].prose}
    for _ in range(30):
        made = conversations.prose(rng, corpora[0])
        start = made.prompt.split("\n", 1)[1] if made.prompt.startswith("Go on") else ""
        assert any(f"{start} {made.reply}".split() == passage.split() for passage in passages if made.reply[:40] in passage)


@pytest.mark.parametrize("family", list(questions.FAMILIES))
def test_a_question_is_answered_by_its_own_reply_and_by_no_other(family):
    rng = np.random.default_rng(3)
    made = [questions.FAMILIES[family](rng) for _ in range(50)]
    for question in made:
        assert question.answer in question.reply
        assert question.steps
        assert is_right(question.reply, question.reply)
        assert is_right(f"<think>\nsteps\n</think>\n{question.reply}", question.reply)
        assert not is_right("I do not know.", question.reply)
    first, other = made[0], next(question for question in made if question.answer != made[0].answer)
    assert not is_right(other.reply, first.reply)


def test_answers_are_right_by_other_means():
    rng = np.random.default_rng(4)
    for _ in range(50):
        asked = questions.add(rng)
        assert eval(re.search(r"\d+ \+ \d+", asked.text).group()) == int(asked.answer)
        asked = questions.multiply(rng)
        assert eval(re.search(r"\d+ \* \d+", asked.text).group()) == int(asked.answer)
        asked = questions.largest(rng)
        assert max(map(int, re.findall(r"\d+", asked.text))) == int(asked.answer)
        asked = questions.order(rng)
        assert sorted(map(int, re.findall(r"\d+", asked.text))) == [int(value) for value in asked.answer.split(", ")]
        asked = questions.letters(rng)
        letter, word = re.search(r"letter (\w) occur in (\w+)", asked.text).groups()
        assert word.count(letter) == int(asked.answer)
        asked = questions.backwards(rng)
        assert asked.text.split()[1][::-1] == asked.answer


def test_held_out_questions_are_never_asked_in_training():
    rng = np.random.default_rng(5)
    kept = {questions.ask(rng, held_out=True).text for _ in range(300)}
    assert not kept & {questions.ask(rng, held_out=False).text for _ in range(3000)}


def test_an_essay_takes_up_the_words_of_its_prompt():
    rng = np.random.default_rng(6)
    for _ in range(50):
        prompt, thinking, reply = essays.essay(rng)
        words = prompt.split()[:5]
        assert ", ".join(words) in thinking
        assert any(word in reply.lower() for word in prompt.split())


def test_prompt_sets_are_different_prompts_that_come_out_the_same_again(corpora):
    sets = prompt_sets(corpora[1])
    assert list(sets) == [*CATEGORIES, "mixed"]
    for category in CATEGORIES:
        assert len(sets[category]) == COUNT and all(row["category"] == category for row in sets[category])
    assert [row["category"] for row in sets["mixed"]] == list(CATEGORIES) * MIXED_COUNT
    prompts = [row["prompt"] for rows in sets.values() for row in rows]
    assert len(set(prompts)) == len(prompts) and max(map(len, prompts)) <= MOST_CHARACTERS
    assert all(is_held_out(row["prompt"], questions.HELD_OUT_OF) for row in sets["questions"])
    assert sets == prompt_sets(corpora[1])
