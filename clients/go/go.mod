module ticketing.example/ticketing

go 1.21
