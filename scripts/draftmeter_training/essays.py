"""Replies to prompts of random words: sentences that take up the words of the prompt, from a small grammar of our own."""

import numpy as np

Rng = np.random.Generator
_listed = str.split

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
INSTRUCTIONS = [
    "Write a long essay about these words.",
    "Write what these words make you think of.",
    "Which word is the odd one out, and why?",
    "Answer in one word.",
    "Tell a story with these words.",
    "Go on.",
]
PLACES = _listed(
    "a quiet harbour;an old market;a small village;the edge of a forest;a long bridge;a library;a stony beach;a kitchen", ";"
)
LOOKS = _listed("bright round heavy distant gentle broken ancient narrow silver hollow strange familiar slow sudden")
THINGS = _listed("a bell;a river;a song;a lantern;a road;a garden;a letter;a wooden door;a bird;a game;a ship;a coat", ";")
PEOPLE = _listed("a child;a sailor;an old teacher;my neighbour;a baker;two friends;a traveller;a musician", ";")
DOES = _listed("waits for;remembers;carries;looks for;sings about;draws;asks about;talks of;is afraid of;finds", ";")
SENTENCES = [
    "The word {w} sounds like {thing}.",
    "When I hear {w}, I think of {place}.",
    "{w} and {v} could be the names of {person} and {person2}.",
    "In {place}, {person} {does} {w}.",
    "Perhaps {w} is {look} and {v} is {look2}.",
    "Nobody knows what {w} means, but it makes me think of {thing}.",
    "{person} {does} {w}, while {person2} {does2} {v}.",
    "I would call {thing} {w}, because it is so {look}.",
    "After {w} comes {v}, as {thing} comes after {thing2}.",
    "There is something {look} in {w}.",
    "First there was {w}; then {person} came to {place} with {thing}.",
    "One could write {w} on {thing} and leave it in {place}.",
]
OPENINGS = [
    "These words are new to me.",
    "Here is what comes to my mind.",
    "Let me begin with {w}.",
    "Most of these words sound {look}.",
    "It is a pleasure to write about {w} and {v}.",
]


def random_words(rng: Rng, fewest: int, most: int) -> list[str]:
    """Words of one to three syllables of a consonant and a vowel."""
    sizes = rng.integers(1, 4, size=int(rng.integers(fewest, most + 1)))
    return ["".join(str(rng.choice(list(kind))) for _ in range(size) for kind in (CONSONANTS, VOWELS)) for size in sizes]


def essay(rng: Rng) -> tuple[str, str, str]:
    """A prompt of random words, the thinking before the reply, and the reply."""
    instruction = str(rng.choice(INSTRUCTIONS))
    words = random_words(rng, 5, 60)
    prompt = " ".join([*words, instruction])
    thinking = f"The words are: {', '.join(words[:20])}.\nI take them up one after the other."
    if instruction == "Answer in one word.":
        return prompt, thinking, f"{str(rng.choice(words)).capitalize()}."
    if instruction.startswith("Which"):
        odd = max(words, key=len)
        return (
            prompt,
            f"{thinking}\nThe longest is {odd}.",
            f"{odd.capitalize()} is the odd one out, because it is the longest. {_text(rng, words, 8)}",
        )
    return prompt, thinking, _text(rng, words, int(rng.integers(8, 26)))


def _text(rng: Rng, words: list[str], sentences: int) -> str:
    parts = [_sentence(rng, OPENINGS, words, 0)]
    for number in range(sentences):
        parts.append(_sentence(rng, SENTENCES, words, number))
        if rng.random() < 0.2:
            parts.append("\n\n")
    return " ".join(parts).replace(" \n\n ", "\n\n").strip()


def _sentence(rng: Rng, forms: list[str], words: list[str], number: int) -> str:
    # The words are taken up in their order, now and then out of turn.
    turn = int(rng.integers(len(words))) if rng.random() < 0.15 else number % len(words)
    things, people = rng.choice(THINGS, size=2, replace=False), rng.choice(PEOPLE, size=2, replace=False)
    looks, does = rng.choice(LOOKS, size=2, replace=False), rng.choice(DOES, size=2, replace=False)
    text = str(rng.choice(forms)).format(
        w=words[turn],
        v=words[(turn + 1) % len(words)],
        place=rng.choice(PLACES),
        thing=things[0],
        thing2=things[1],
        person=people[0],
        person2=people[1],
        look=looks[0],
        look2=looks[1],
        does=does[0],
        does2=does[1],
    )
    return text[0].upper() + text[1:]
