"""`equipoise serve`: a page and a JSON API to search pictures, name them, judge suspicious captions and see why."""
