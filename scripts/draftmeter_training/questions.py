"""Questions with one checkable answer and the steps that lead to it. One in ten, by the hash of its text, is held out."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from draftmeter_training.corpus import is_held_out

HELD_OUT_OF = 10
Rng = np.random.Generator
_listed = str.split

NAMES = _listed("Anna Ben Clara David Emma Felix Grace Henry Ida Jack Karin Leo Mia Noah Olga Paul Rosa Sam Tina Victor")
THINGS = _listed("apples books coins cards eggs keys lamps marbles nuts pears pens plums shells stamps stones tickets")
DAYS = _listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
GROUPS = {
    "an animal": _listed("cat dog horse lion mouse rabbit sheep tiger wolf goat bear duck"),
    "a fruit": _listed("apple banana cherry grape lemon mango orange peach pear plum fig melon"),
    "a colour": _listed("black blue brown green grey orchid pink purple red white yellow violet"),
    "a tool": _listed("axe chisel drill file hammer pliers saw screwdriver shovel spade wrench rake"),
    "a vehicle": _listed("bicycle boat bus car ferry lorry plane ship train tram truck van"),
    "a number": _listed("two three four five six seven eight nine ten eleven twelve twenty"),
}
WORDS = sorted({word for group in GROUPS.values() for word in group} | set(THINGS))


@dataclass(frozen=True)
class Question:
    """What is asked, the steps of thinking it through, the reply, and the answer that the reply must name."""

    text: str
    steps: list[str]
    reply: str
    answer: str


def ask(rng: Rng, held_out: bool, families: dict[str, Callable[[Rng], Question]] | None = None) -> Question:
    """A random question that is (or is not) held out from training."""
    makers = list((families or FAMILIES).values())
    while True:
        question = makers[int(rng.integers(len(makers)))](rng)
        if is_held_out(question.text, HELD_OUT_OF) == held_out:
            return question


def number_reply(value: int) -> str:
    """The reply to a question for a number."""
    return f"The answer is {value}."


def _pick(rng: Rng, values: list[str], count: int = 1) -> list[str]:
    return [str(value) for value in rng.choice(values, size=count, replace=False)]


def add(rng: Rng) -> Question:
    """Sum of two numbers below 1000, digit by digit."""
    a, b = (int(value) for value in rng.integers(10, 1000, size=2))
    steps, carry = [f"I add {a} and {b} from the right."], 0
    for place in range(len(str(max(a, b)))):
        first, second = a // 10**place % 10, b // 10**place % 10
        total = first + second + carry
        steps.append(f"{first} + {second} + {carry} = {total}: write {total % 10}, carry {total // 10}.")
        carry = total // 10
    return Question(f"What is {a} + {b}?", [*steps, f"Together that is {a + b}."], number_reply(a + b), str(a + b))


def multiply(rng: Rng) -> Question:
    """Product of a number below 100 and a digit, by tens and ones."""
    a, b = int(rng.integers(11, 100)), int(rng.integers(2, 10))
    tens, ones = a // 10 * 10, a % 10
    steps = [f"{a} is {tens} + {ones}.", f"{tens} * {b} = {tens * b}.", f"{ones} * {b} = {ones * b}."]
    steps.append(f"{tens * b} + {ones * b} = {a * b}.")
    return Question(f"What is {a} * {b}?", steps, number_reply(a * b), str(a * b))


def story(rng: Rng) -> Question:
    """A small story of things won and lost, two to five steps."""
    name, thing = _pick(rng, NAMES)[0], _pick(rng, THINGS)[0]
    have = int(rng.integers(5, 60))
    text, steps = f"{name} has {have} {thing}.", [f"{name} starts with {have} {thing}."]
    for other in _pick(rng, [n for n in NAMES if n != name], int(rng.integers(2, 6))):
        kind = int(rng.integers(3))
        if kind == 0 or have < 4:
            got = int(rng.integers(2, 30))
            text += f" {other} gives {name} {got} more."
            steps.append(f"{other} gives {got}: {have} + {got} = {have + got}.")
            have += got
        elif kind == 1:
            gone = int(rng.integers(1, have))
            text += f" {name} gives {gone} to {other}."
            steps.append(f"{other} takes {gone}: {have} - {gone} = {have - gone}.")
            have -= gone
        elif have < 50:
            text += f" {other} doubles what {name} has."
            steps.append(f"{other} doubles it: {have} * 2 = {have * 2}.")
            have *= 2
    steps.append(f"So {name} has {have} {thing} now.")
    reply = f"{name} has {have} {thing}."
    return Question(f"{text} How many {thing} does {name} have now?", steps, reply, str(have))


def order(rng: Rng) -> Question:
    """Numbers to put in order, by taking the smallest again and again."""
    left = [int(value) for value in rng.choice(np.arange(1, 100), size=int(rng.integers(4, 9)), replace=False)]
    text = f"Put these numbers in order, the smallest first: {', '.join(map(str, left))}."
    steps, done = [], list[int]()
    while left:
        smallest = min(left)
        left.remove(smallest)
        done.append(smallest)
        rest = f"left are {', '.join(map(str, left))}." if left else "nothing is left."
        steps.append(f"The smallest is {smallest}; {rest}")
    answer = ", ".join(map(str, done))
    return Question(text, steps, f"In order: {answer}.", answer)


def letters(rng: Rng) -> Question:
    """How often a letter occurs in a word."""
    word = _pick(rng, WORDS)[0] + _pick(rng, WORDS)[0]
    letter = str(rng.choice(list(word)))
    steps, count = [f"I spell {word} letter by letter."], 0
    for one in word:
        count += one == letter
        steps.append(f"{one}: {count}")
    steps.append(f"The letter {letter} occurs {count} times.")
    return Question(f"How many times does the letter {letter} occur in {word}?", steps, number_reply(count), str(count))


def backwards(rng: Rng) -> Question:
    """A word written backwards."""
    word = "".join(_pick(rng, WORDS, 2))
    spelled, turned = " ".join(word), " ".join(word[::-1])
    answer = word[::-1]
    steps = [f"The letters are {spelled}.", f"From the end they are {turned}."]
    return Question(f"Write {word} backwards.", steps, f"Backwards it is {answer}.", answer)


def weekday(rng: Rng) -> Question:
    """The weekday some days later."""
    start, days = int(rng.integers(7)), int(rng.integers(2, 90))
    weeks, rest = divmod(days, 7)
    answer = DAYS[(start + days) % 7]
    steps = [f"{days} days are {weeks} weeks and {rest} days."]
    steps += [f"{step} days after {DAYS[start]} is {DAYS[(start + step) % 7]}." for step in range(1, rest + 1)]
    reply = f"It will be {answer}."
    return Question(f"Today is {DAYS[start]}. Which day will it be in {days} days?", steps, reply, answer)


def odd_one(rng: Rng) -> Question:
    """The word that does not belong to the others."""
    most, other = _pick(rng, list(GROUPS), 2)
    odd = _pick(rng, GROUPS[other])[0]
    words = [*_pick(rng, GROUPS[most], int(rng.integers(3, 6))), odd]
    rng.shuffle(words)
    steps = [f"{word} is {other if word == odd else most}." for word in words]
    reply = f"The odd one out is {odd}."
    return Question(f"Which word is the odd one out: {', '.join(words)}?", steps, reply, odd)


def sequence(rng: Rng) -> Question:
    """The next number of a sequence with a constant difference."""
    start, step = int(rng.integers(1, 60)), int(rng.integers(2, 15))
    shown = [start + step * number for number in range(4)]
    steps = [f"{b} - {a} = {b - a}." for a, b in pairwise(shown)]
    answer = shown[-1] + step
    steps.append(f"The difference is always {step}, so the next is {shown[-1]} + {step} = {answer}.")
    text = f"Which number comes next: {', '.join(map(str, shown))}?"
    return Question(text, steps, f"The next number is {answer}.", str(answer))


def largest(rng: Rng) -> Question:
    """The largest of a few numbers, by going through them."""
    values = [int(value) for value in rng.choice(np.arange(10, 1000), size=int(rng.integers(4, 8)), replace=False)]
    best, steps = values[0], [f"I start with {values[0]}."]
    for value in values[1:]:
        said = "is larger, I keep it" if value > best else f"is smaller than {best}"
        best = max(best, value)
        steps.append(f"{value} {said}.")
    text = f"Which is the largest of {', '.join(map(str, values))}?"
    return Question(text, steps, f"The largest is {best}.", str(best))


FAMILIES: dict[str, Callable[[Rng], Question]] = {
    "add": add,
    "multiply": multiply,
    "story": story,
    "order": order,
    "letters": letters,
    "backwards": backwards,
    "weekday": weekday,
    "odd_one": odd_one,
    "sequence": sequence,
    "largest": largest,
}
