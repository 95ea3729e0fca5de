"""From lines of JSON in any known form to canonical examples: recognition, validation, Unicode and line ends, keys."""
