"""Plans executed on an engine: answers, records, predicted held against realized."""
