# Says in capitals what it is told, and means it.
printf '%s!\n' "$(tr '[:lower:]' '[:upper:]')"
