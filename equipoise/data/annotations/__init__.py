"""What people said of published data: ids of captions, which captions are relevant to which pictures, grades."""
