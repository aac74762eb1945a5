"""The theorems of the papers as programs: reductions, counterexamples, guarantees, worst cases."""
