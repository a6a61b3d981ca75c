"""The prose of a file: Markdown outside code, comments, and string literals that are sentences. What words it may not use stands in words.txt.

usage: language.py          every use of a word that is refused, and how often the doubtful ones are used
       language.py ease     Flesch reading ease, words a sentence and words a page of each document
       language.py long [NAME...]  every sentence of a document that has more words than it may have
"""

import io
import pathlib
import re
import sys
import tokenize

import repository

WORDS = pathlib.Path(__file__).with_name("words.txt")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
CPP_PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
HASH_COMMENT = re.compile(r"(?:^|\s)#(?!!)[^\n]*")
SENTENCE = re.compile(r"\w\s+\w")
MOST_WORDS = 25  # of a sentence
QUOTES = ("docs/measured/fidelity.md", "docs/measured/language.md")  # papers, and older texts of our own


class Rule:
    """A line of words.txt: `word => instead`, or `? word => instead` for one that has a true use, too."""

    def __init__(self, line):
        word, _, self.instead = (part.strip() for part in line.partition(" => "))
        self.doubtful = word.startswith("?")
        self.word = word.lstrip("? ")
        self.pattern = re.compile(rf"\b(?:{self.word})\b", re.IGNORECASE)


def rules():
    return [Rule(line) for line in WORDS.read_text().splitlines() if line.strip() and not line.startswith("#")]


def blank(text):
    """As many lines, and nothing on them."""
    return "\n" * text.count("\n")


def markdown_prose(text):
    yield 1, INLINE_CODE.sub("", FENCE.sub(lambda found: blank(found[0]), text))


def is_prose(literal):
    return bool(SENTENCE.search(literal))


def cpp_prose(text):
    line, at = 1, 0
    for piece in CPP_PIECE.finditer(text):
        line += text.count("\n", at, piece.start())
        at = piece.start()
        if piece[0].startswith("/") or (not piece[0].startswith("'") and is_prose(piece[0])):
            yield line, INLINE_CODE.sub("", piece[0])


def python_prose(text):
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and is_prose(token.string)):
                yield token.start[0], INLINE_CODE.sub("", token.string)
    except (tokenize.TokenError, IndentationError):
        return


def hash_prose(text):
    for number, line in enumerate(text.splitlines(), 1):
        for comment in HASH_COMMENT.findall(line):
            yield number, comment


def prose(name, text):
    """(line, text) of each piece."""
    suffix = pathlib.PurePath(name).suffix
    if suffix == ".md":
        return markdown_prose(text)
    if suffix in (".cpp", ".hpp", ".cu", ".js"):
        return cpp_prose(text)
    if suffix == ".py":
        return python_prose(text)
    if suffix in (".build", ".sh") or (suffix == "" and text.startswith("#!")):
        return hash_prose(text)
    return ()


def uses(name, text, each_rule):
    """(line, rule, words around) of every use of a rule's word in a file's prose."""
    for line, piece in prose(name, text):
        for rule in each_rule:
            for found in rule.pattern.finditer(piece):
                around = piece[max(0, found.start() - 40):found.end() + 40].replace("\n", " ")
                yield line + piece.count("\n", 0, found.start()), rule, around


def written_files():
    for path, text in repository.text_files():
        name = repository.name(path)
        if not name.startswith("tests/fuzz/corpus/") and name not in QUOTES and not name.startswith("tests/repository/"):
            yield name, text


def refused():
    every = rules()
    for name, text in written_files():
        for line, rule, around in uses(name, text, [rule for rule in every if not rule.doubtful]):
            yield f"{name}:{line}: \"{rule.word}\": write {rule.instead}: {around}"


def doubtful():
    """How often each is used."""
    every = [rule for rule in rules() if rule.doubtful]
    counts = {rule.word: 0 for rule in every}
    for name, text in written_files():
        for _, rule, _ in uses(name, text, every):
            counts[rule.word] += 1
    return counts


def syllables(word):
    word = re.sub(r"(?:es|ed|e)$", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", word)))


def sentences_of(text):
    """The sentences of Markdown's paragraphs and lists, not of its tables and headings. Code and links are left out."""
    lines = [line for line in next(markdown_prose(text))[1].splitlines() if not line.lstrip().startswith(("|", "#", "<"))]
    plain = re.sub(r"\]\([^)]*\)|[*_\[\]]", "", "\n".join(lines))
    return [sentence for sentence in re.split(r"[.!?](?:\s|$)|:\s|\n\s*\n|\n\s*(?:[-*]|\d+\.) ", plain) if re.search(r"[A-Za-z]", sentence)]


def long_sentences(text):
    """(words, sentence) of each sentence of Markdown that has more than MOST_WORDS."""
    for sentence in sentences_of(text):
        count = len(re.findall(r"[A-Za-z][\w'’-]*", sentence))
        if count > MOST_WORDS:
            yield count, " ".join(sentence.split())


def ease(text):
    """Flesch's reading ease, words a sentence, and words, of Markdown. Above 60 is plain English."""
    sentences = sentences_of(text)
    words = [word for sentence in sentences for word in re.findall(r"[A-Za-z]+", sentence)]
    if not words:
        return 0.0, 0.0, 0
    a_sentence = len(words) / len(sentences)
    return 206.835 - 1.015 * a_sentence - 84.6 * sum(map(syllables, words)) / len(words), a_sentence, len(words)


def documents():
    for path, text in repository.text_files():
        if path.suffix == ".md" and not repository.name(path).startswith("tests/"):
            yield repository.name(path), text


def main():
    if sys.argv[1:] == ["ease"]:
        for name, text in documents():
            figure, a_sentence, words = ease(text)
            print(f"{figure:6.1f} {a_sentence:5.1f} words a sentence {words:6} words  {name}")
        return
    if sys.argv[1:2] == ["long"]:
        for name, text in documents():
            if len(sys.argv) == 2 or name in sys.argv[2:]:
                for count, sentence in long_sentences(text):
                    print(f"{name}: {count} words: {sentence}")
        return
    for problem in refused():
        print(problem)
    for word, count in doubtful().items():
        print(f"to look at: {word}: {count}")


if __name__ == "__main__":
    main()
