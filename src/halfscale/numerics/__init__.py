"""How numbers behave: formats, precision, loss scaling, and FP16 arithmetic on CPUs without it."""
