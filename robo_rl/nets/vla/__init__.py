"""Networks of vision-language-action policies: a prefix of tokens, and an expert that denoises."""
