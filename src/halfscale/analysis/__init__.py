"""Files in, findings out: tables, figures and the paper's numbers. No torch here."""
