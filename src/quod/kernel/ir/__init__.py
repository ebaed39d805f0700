"""The intermediate representation and its text form."""
