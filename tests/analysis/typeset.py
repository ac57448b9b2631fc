"""Compile a piece of LaTeX on a page like the paper's."""

import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=2.5cm]{geometry}
\usepackage[T1]{fontenc}
\usepackage{lmodern,array,booktabs,graphicx,longtable}
\begin{document}
%s
\end{document}
"""


def typeset(body: str, folder: Path) -> str:
    """Compile and return the log; an error, text too wide for the page or a missing glyph fails the test."""
    done, log = compile_latex(body, folder)
    assert done == 0, log[-2000:]
    for complaint in ("\n!", "Overfull", "Missing character"):
        assert complaint not in log, log[log.index(complaint) :][:500]
    return log


def compile_latex(body: str, folder: Path) -> tuple[int, str]:
    """Run pdflatex three times, until longtable's columns have settled; return its exit status and its log."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (folder / "page.tex").write_text(PAGE % body, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "page.tex"]
    for _ in range(3):
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return done.returncode, (folder / "page.log").read_text(encoding="utf-8", errors="replace")
