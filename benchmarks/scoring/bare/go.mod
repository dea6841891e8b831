module bare

go 1.22
