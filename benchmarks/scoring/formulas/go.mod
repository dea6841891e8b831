module formulas

go 1.21
