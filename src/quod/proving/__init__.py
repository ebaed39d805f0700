"""What provers have in common, whatever they prove: nothing here knows a proof system."""
