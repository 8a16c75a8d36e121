"""The tokenizer: byte-level BPE learnt from the training text, with the tokens of the chat, and the chat template."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from draftmeter_training.conversations import Conversation

END, PAD, USER, ASSISTANT, THINK, THINK_END = "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>", "<think>", "</think>"
SPECIAL = [END, PAD, USER, ASSISTANT, THINK, THINK_END]
END_ID, PAD_ID, USER_ID, ASSISTANT_ID, THINK_ID, THINK_END_ID = range(len(SPECIAL))

# Past replies go in without their thinking. With reasoning off, the prompt itself holds the empty thinking part.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}"
    "<|assistant|><think></think>{{ message['content'].split('</think>')[-1].lstrip('\\n') }}<|end|>"
    "{%- else -%}<|user|>{{ message['content'] }}<|end|>{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>"
    "{%- if not (enable_thinking is defined and enable_thinking) -%}<think></think>{%- endif -%}"
    "{%- endif -%}"
)


def learn_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer of `vocabulary` tokens; digits stay single. The same texts give the same tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt = json.loads(tokenizer.to_str())
    for token in learnt["added_tokens"]:
        # A server leaves special tokens out of its text; the thinking part must be told from the reply there.
        token["special"] = token["content"] not in (THINK, THINK_END)
    return Tokenizer.from_str(json.dumps(learnt))


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint folder."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def prompt_ids(tokenizer: Tokenizer, prompt: str, reasoning: bool) -> list[int]:
    """The tokens of a one-turn prompt, as the chat template makes them."""
    ids = [USER_ID, *_encode(tokenizer, prompt), END_ID, ASSISTANT_ID]
    return ids if reasoning else [*ids, THINK_ID, THINK_END_ID]


def conversation_ids(tokenizer: Tokenizer, conversation: Conversation) -> tuple[list[int], list[bool]]:
    """The tokens of a conversation and which of them are to be learnt."""
    reasoning = conversation.thinking is not None
    prompt = prompt_ids(tokenizer, conversation.prompt, reasoning)
    reply = _encode(tokenizer, conversation.reply)
    if conversation.thinking is not None:
        thought = _encode(tokenizer, f"\n{conversation.thinking}\n")
        reply = [THINK_ID, *thought, THINK_END_ID, *_encode(tokenizer, f"\n{conversation.reply}")]
    learnt = [conversation.learn_prompt] * len(prompt)
    if not reasoning:
        # The template writes the empty thinking part; a model that learnt it would also write it with reasoning on.
        learnt[-2:] = [False, False]
    return [*prompt, *reply, END_ID], [*learnt, *([True] * (len(reply) + 1))]


def tokenizer_config(context: int) -> dict[str, Any]:
    """The tokenizer_config.json of the checkpoint, with the chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids
