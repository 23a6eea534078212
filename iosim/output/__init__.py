"""What iosim writes: tables, figures from tables, and where numbers come from."""
