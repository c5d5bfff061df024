// Counts the primes below a bound by striking out multiples, one candidate after the other.
module.exports = (req, res) => {
  const bound = 10000;
  const composite = new Array(bound).fill(false);
  let primes = 0;
  for (let n = 2; n < bound; n++) {
    if (composite[n]) continue;
    primes++;
    for (let multiple = 2 * n; multiple < bound; multiple += n) composite[multiple] = true;
  }
  res.send(`${primes} primes below ${bound}\n`);
};
