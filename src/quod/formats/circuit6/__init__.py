"""Files of Expander's compiler (`CIRCUIT6`)."""
