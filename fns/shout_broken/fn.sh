# Fails on purpose, each time: an exit status other than 0 is answered with 500. The release that tries it must be rolled back.
exit 1
