"""The protocol's text formats: attributes, configuration strings, small lists."""
