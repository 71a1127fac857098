"""Operations whose naive form would be too slow or too large, one module each, with a plain reference."""
