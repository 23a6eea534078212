"""The lab: programs, tables and exercises as JSON for a page that is built from `front`."""
