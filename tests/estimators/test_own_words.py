"""Nothing is said in the paper's words: ideas and numbers are cited, sentences are ours."""

import re
from pathlib import Path

from shared_files import shared_file

ROOT = Path(__file__).resolve().parents[2]
RUN = 9  # so many words in a row are no accident
NAMES = (
    "Changing the Kernel During Training Leads to Double Descent in Kernel Regression",
    "Department of Mathematics, KTH Royal Institute of Technology",
)


def words(text):
    """Words in lower case, without what may stand in both: addresses and names."""
    text = re.sub(r"https?://\S+", " ", text)
    for name in NAMES:
        text = re.sub(r"\W+".join(re.findall(r"\w+", name)), " ", text, flags=re.IGNORECASE)
    return [word.lower() for word in re.findall(r"[A-Za-z']+", text)]


def runs(text):
    """All runs of words but formulas, which are single letters."""
    found = words(text)
    windows = (tuple(found[i : i + RUN]) for i in range(len(found) - RUN + 1))
    return {window for window in windows if max(map(len, window)) > 2}


def prose_of_latex(tex):
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    tex = re.sub(r"\\(begin|end|label|ref|eqref|cite[pt]?)\{[^}]*\}", " ", tex)
    return re.sub(r"\\[a-zA-Z]+", " ", re.sub(r"\$[^$]*\$", " ", tex))


def prose_of_source(text):
    """Without what breaks a sentence: quotes of continued strings, comment and quotation marks."""
    return re.sub(r"^\s*[#>]", " ", re.sub(r"\"\s*\n\s*f?\"", "", text), flags=re.MULTILINE)


def our_texts():
    folders = [path for name in ("docs", "src", "benchmarks") for path in (ROOT / name).rglob("*")]
    return [path for path in [*ROOT.glob("*.md"), *folders] if path.suffix in (".md", ".py")]


def test_no_sentence_of_the_paper_is_repeated():
    published = runs(prose_of_latex(shared_file("paper/paper.tex").read_text(encoding="utf-8")))
    assert len(published) > 5_000
    repeated = {
        str(path.relative_to(ROOT)): sorted(" ".join(run) for run in found)
        for path in our_texts()
        if (found := runs(prose_of_source(path.read_text(encoding="utf-8"))) & published)
    }
    assert repeated == {}
