"""One HTML file that says what was found: text, figures, tables and drawings, with no request."""
