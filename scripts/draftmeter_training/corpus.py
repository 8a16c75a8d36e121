"""Text that everybody with a Python has: the standard library's sources (code) and its documentation (prose).

Both are under the PSF licence. Every twelfth file or topic, chosen by the hash of its name, is held out from training.
"""

import ast
import hashlib
import inspect
import io
import pydoc_data.topics
import sysconfig
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

# Tests are not installed everywhere; the encodings are tables; the topics are taken as prose.
LEFT_OUT = {"test", "tests", "idle_test", "encodings", "pydoc_data", "site-packages", "dist-packages", "__pycache__"}
HELD_OUT_OF = 12
SHORTEST_PROSE = 120
LONGEST_PROSE = 1800


class CorpusError(ValueError):
    """A Python installation without the text that training needs."""


@dataclass(frozen=True)
class CodeFile:
    """One source file: its lines, and the line numbers (from 0) at which a statement of its body or of a class starts."""

    name: str
    lines: list[str]
    starts: list[int]


@dataclass(frozen=True)
class Passage:
    """A piece of documentation; `about` names what it documents, null for a passage out of a longer text."""

    about: str | None
    text: str


@dataclass(frozen=True)
class Corpus:
    """Code and prose, for training or held out."""

    code: list[CodeFile]
    prose: list[Passage]

    def sha256(self) -> str:
        """One hash for everything in it, in order."""
        whole = hashlib.sha256()
        for file in self.code:
            whole.update("\n".join([file.name, *file.lines]).encode())
        for passage in self.prose:
            whole.update(f"{passage.about}\n{passage.text}".encode())
        return whole.hexdigest()


def is_held_out(name: str, one_of: int = HELD_OUT_OF) -> bool:
    """Whether what is called `name` is kept from training: the same answer everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % one_of == 0


def read_corpus(library: Path | None = None) -> tuple[Corpus, Corpus]:
    """Training and held-out text of the standard library in `library` (default: the running Python's).

    Raises :class:`CorpusError` when there is too little of it.
    """
    root = library or Path(sysconfig.get_paths()["stdlib"])
    training, held_out = Corpus([], []), Corpus([], [])
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if LEFT_OUT & set(relative.parts):
            continue
        name = relative.as_posix()
        source = _read(path)
        if source is None:
            continue
        corpus = held_out if is_held_out(name) else training
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(source)
            except SyntaxError:
                continue
        corpus.code.append(CodeFile(name, source.splitlines(), _starts(tree)))
        corpus.prose.extend(_docstrings(tree, name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")))
    for topic, text in sorted(pydoc_data.topics.topics.items()):
        corpus = held_out if is_held_out(topic) else training
        corpus.prose.extend(Passage(None, part) for part in _passages(text))
    if len(training.code) < 100 or not held_out.code or not held_out.prose:
        raise CorpusError(f"{root}: {len(training.code)} source files; training needs the whole standard library")
    return training, held_out


def _read(path: Path) -> str | None:
    """The file as text, null where its own declared encoding does not read it."""
    data = path.read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding).expandtabs(8)
    except (SyntaxError, UnicodeDecodeError):
        return None


def _starts(tree: ast.Module) -> list[int]:
    found = {0}
    for statement in tree.body:
        found.add(_first_line(statement))
        if isinstance(statement, ast.ClassDef):
            found.update(_first_line(part) for part in statement.body)
    return sorted(found)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1


def _docstrings(tree: ast.Module, module: str) -> list[Passage]:
    found: list[Passage] = []

    def visit(node: ast.AST, name: str) -> None:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = inspect.cleandoc(ast.get_docstring(node) or "")
            if len(text) >= SHORTEST_PROSE:
                found.extend(Passage(name if number == 0 else None, part) for number, part in enumerate(_passages(text)))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                visit(child, f"{name}.{child.name}")

    visit(tree, module)
    return found


def _passages(text: str) -> list[str]:
    """The text in pieces of whole paragraphs, of at most about LONGEST_PROSE characters."""
    pieces: list[str] = []
    current = ""
    for paragraph in text.strip().split("\n\n"):
        if current and len(current) + len(paragraph) > LONGEST_PROSE:
            pieces.append(current)
            current = ""
        current = f"{current}\n\n{paragraph}" if current else paragraph
    pieces.append(current)
    return [piece.strip("\n") for piece in pieces if len(piece) >= SHORTEST_PROSE]
