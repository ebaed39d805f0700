"""Programs and libraries that Quod is measured against."""
