# Says in capitals what it is told.
exec tr '[:lower:]' '[:upper:]'
