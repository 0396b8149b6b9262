"""The lag of queries, and its forms: values, Prometheus metrics, lines of JSON."""
