"""SIMAT: pictures with one word changed."""
