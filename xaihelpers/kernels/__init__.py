"""Operations whose naive form would be too slow or too large: one file per operation, each with a plain reference beside it."""
