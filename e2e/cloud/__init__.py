"""A managed cluster of a cloud, tried by a person who has an account there: one row of docs/compatibility.md."""
