"""Language models as exact integer programs: the same bits on every device."""
