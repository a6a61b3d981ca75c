"""Prose uses the words of the field (words.txt), and pages keep to their length."""

import re
import unittest

import language
import repository

MAX_WORDS = {"CONTRIBUTING.md": 1500}
MAX_LINES = {"README.md": 150}
MAX_WORDS_OF_DECISION = 250


def pieces(name, text):
    return [piece for _, piece in language.prose(name, text)]


def found(name, text, word="mend(s|ed|ing)? => fix"):
    return [(line, around) for line, _, around in language.uses(name, text, [language.Rule(word)])]


class Language(unittest.TestCase):
    def test_no_refused_word_is_used(self):
        problems = list(language.refused())
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_pages_keep_to_their_length(self):
        for name, max_count in MAX_WORDS.items():
            self.assertLessEqual(len((repository.ROOT / name).read_text().split()), max_count, name)
        for name, max_count in MAX_LINES.items():
            self.assertLessEqual(len((repository.ROOT / name).read_text().splitlines()), max_count, name)
        for page in repository.files(".md", under=repository.ROOT / "docs" / "decisions"):
            self.assertLessEqual(len(page.read_text().split()), MAX_WORDS_OF_DECISION, page.name)

    def test_sentences_of_documents_are_short(self):
        for name, text in language.documents():
            if name not in language.QUOTES:
                self.assertFalse([f"{count} words: {sentence}" for count, sentence in language.long_sentences(text)], name)

    def test_long_sentences_are_found(self):
        words = " ".join(["word"] * 25)
        self.assertFalse(list(language.long_sentences(f"{words}. {words}: {words}\n\n- {words}\n- {words}\n\n  | {words} {words} |\n")))
        self.assertEqual([count for count, _ in language.long_sentences(f"{words}, and one `of code`.\n")], [27])

    def test_decisions_are_numbered_once(self):
        numbers = [re.match(r"\d{4}(?=-)", page.name)[0] for page in repository.files(".md", under=repository.ROOT / "docs" / "decisions")]
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_comments_and_sentences_are_prose_and_code_is_not(self):
        self.assertEqual(pieces("x.cpp", 'int mend = 1;  // it mends\nsay("they mend it"); key("mend"); say(\'"\'); // "quoted"\n'), ["// it mends", '"they mend it"', '// "quoted"'])
        self.assertEqual(pieces("x.py", 'mend = 1  # it mends\n"""They mend."""\nkey("mend")\n'), ["# it mends", '"""They mend."""'])
        self.assertEqual(pieces("x.build", "mend = 'they mend'  # it mends\n"), [" # it mends"])
        self.assertEqual([line for line, _ in found("x.md", "Mends `mend`.\n\n```\nmend\n```\nIt is\nmended.\n")], [1, 7])
        self.assertEqual([line for line, _ in found("x.cpp", "int a;\n/* one\n   mends */\n")], [3])
        self.assertFalse(found("x.md", "an amendment\n"))

    def test_a_doubtful_word_is_counted_and_refuses_nothing(self):
        self.assertTrue(language.Rule("? share => fraction").doubtful)
        self.assertIn("told", language.doubtful())

    def test_reading_ease_falls_with_long_words_and_sentences(self):
        plain, of_plain, words = language.ease("The cat sat on the mat. It was big.\n")
        hard, of_hard, _ = language.ease("Notwithstanding considerable institutional hesitation, administrators reconsidered accommodations.\n")
        self.assertEqual((words, of_plain), (9, 4.5))
        self.assertGreater(of_hard, of_plain)
        self.assertGreater(plain, 90)
        self.assertLess(hard, 0)


if __name__ == "__main__":
    unittest.main()
