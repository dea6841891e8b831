"""The two forms of placeholders, bound and unbound, behind one protocol: what each is made of and how it behaves."""
