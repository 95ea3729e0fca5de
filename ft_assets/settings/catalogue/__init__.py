"""The only lists of methods, data forms and gates. What differs between them is an attribute of the object."""
