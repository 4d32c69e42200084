"""What the API answers, one topic a file."""
