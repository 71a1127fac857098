"""The collection as lessons: openings, routes, exercises with checked answers, guesses, slides."""
