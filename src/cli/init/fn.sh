# Carries out each call of /@NAME@. The body comes as standard input; standard output is the answer, and an exit status other than 0 is 500.
read -r name || true
echo "Hello, ${name:-world}!@MORE@"
