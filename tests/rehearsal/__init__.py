"""Every preset of the paper's size, run to its end on stand-ins: `python -m rehearsal [NAMES]`.

The stand-ins have the formats and architectures of the real data and models, but few images each and random
weights, so what is recorded means nothing. `presets` says what a rehearsal changes of a preset.
"""
