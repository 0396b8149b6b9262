"""How far queries are behind, and how that is told: as values, as figures for Prometheus, as lines of JSON."""
